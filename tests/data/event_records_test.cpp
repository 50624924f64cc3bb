#include "longshore/data/tensorboard/event_records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "longshore/data/tensorboard/crc32c.h"
#include "tests/data/read_events.h"

namespace longshore::data {
namespace {

// RFC 3720, appendix B.4, and the check value of the catalogue of parametrised CRC algorithms.
TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43);
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(crc32c(ascending), 0x46dd794e);
}

// To the byte what TensorBoard's own record writer and message classes give.
TEST(EventRecords, AreThoseOfTensorBoard) {
  EXPECT_EQ(version_record(1.5),
            std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d"
                        "brain.Event:2*(dl",
                        40));
}

TEST(EventRecords, ComeBack) {
  const Scalar scalars[] = {
      {"learning/loss", 2.5}, {"eval/größe", -1e30}, {"perf/mfu", std::nan("")}};
  const int64_t step = int64_t{1} << 40;
  const std::vector<ReadEvent> events =
      read_events(version_record(1) + start_record(2, 300) + scalars_record(3, step, scalars) +
                  text_record(4, 127, "sample", {.shape = {}, .cells = {verbatim("a\nb\xff")}}) +
                  text_record(5, 128, "samples",
                              {.shape = {2, 2}, .cells = {"a", "", std::string(200, 'c'), "d"}}));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[1].starts);
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].time, static_cast<double>(i + 1));
  EXPECT_EQ(events[1].step, 300);
  EXPECT_EQ(events[2].step, step);
  EXPECT_EQ(events[2].scalars.at("learning/loss"), 2.5f);
  EXPECT_EQ(events[2].scalars.at("eval/größe"), -1e30f);
  EXPECT_TRUE(std::isnan(events[2].scalars.at("perf/mfu")));
  EXPECT_EQ(events[3].texts.at("sample"), std::vector<std::string>{"    a\n    b\xef\xbf\xbd"});
  EXPECT_TRUE(events[3].shape.empty());
  EXPECT_EQ(events[4].texts.at("samples"),
            (std::vector<std::string>{"a", "", std::string(200, 'c'), "d"}));
  EXPECT_EQ(events[4].shape, (std::vector<int64_t>{2, 2}));
}

}  // namespace
}  // namespace longshore::data
