#include "longshore/data/safetensors/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "longshore/base/error.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using Dtype = SafetensorsDtype;

TEST(SafetensorsWriter, LeavesTheOldFileWithoutFinish) {
  TemporaryFolder folder;
  const fs::path path = folder.write("a.safetensors", "old");
  {
    SafetensorsWriter writer(path, {{"a", Dtype::uint8, {4}}});
    writer.append("a", bytes_of("0123"));
    EXPECT_EQ(folder.file_count(), 2u);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(SafetensorsWriter, RefusesDataThatWasNotAnnounced) {
  TemporaryFolder folder;
  const std::vector<SafetensorsInfo> tensors = {
      {"a", Dtype::uint8, {4}}, {"none", Dtype::uint8, {0}}, {"b", Dtype::uint8, {2}}};
  SafetensorsWriter writer(folder / "a.safetensors", tensors);
  EXPECT_THROW(writer.append("b", bytes_of("01")), InternalError);
  EXPECT_THROW(writer.append("a", bytes_of("01234")), InternalError);
  writer.append("a", bytes_of("012"));
  EXPECT_THROW(writer.append("b", bytes_of("01")), InternalError);
  writer.append("a", bytes_of("3"));
  EXPECT_THROW(writer.append("a", bytes_of("4")), InternalError);
  const std::string what = message_of<InternalError>([&] { writer.finish(); });
  EXPECT_THAT(what, HasSubstr("\"b\" lacks 2 bytes"));
  writer.append("b", bytes_of("01"));
  EXPECT_THROW(writer.append("b", bytes_of("01")), InternalError);
  writer.finish();
  EXPECT_EQ(text_of(SafetensorsFile(folder / "a.safetensors").at("a").data), "0123");
}

TEST(SafetensorsWriter, RefusesTensorsThatCannotBeRead) {
  TemporaryFolder folder;
  const int64_t huge = int64_t{1} << 62;
  const std::vector<std::vector<SafetensorsInfo>> lists = {
      {{"__metadata__", Dtype::uint8, {}}},
      {{"\xff", Dtype::uint8, {}}},
      {{"a", Dtype::uint8, {}}, {"a", Dtype::int8, {}}},
      {{"a", Dtype::uint8, {-1}}},
      {{"a", Dtype::uint8, {1, 1, 1, 1, 1, 1, 1, 1, 1}}},
      {{"a", Dtype::uint8, {huge}}, {"b", Dtype::uint8, {huge}}},
  };
  for (const auto& list : lists)
    EXPECT_THROW(SafetensorsWriter(folder / "a.safetensors", list), InternalError);
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(SafetensorsWriter, NamesAFileItCannotWrite) {
  TemporaryFolder folder;
  const fs::path path = folder / "missing" / "a.safetensors";
  const std::string what = message_of<FileError>([&] { SafetensorsWriter(path, {}); });
  EXPECT_THAT(what, HasSubstr(path.string()));
  EXPECT_THAT(what, HasSubstr("No such file"));
}

}  // namespace
}  // namespace longshore::data
