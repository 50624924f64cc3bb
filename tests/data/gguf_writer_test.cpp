#include "longshore/data/gguf/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "longshore/base/error.h"
#include "tests/data/safetensors_samples.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

// Little-endian bytes of a number, zeros up to `size`.
std::string number(uint64_t value, size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}
std::string u32(uint64_t value) { return number(value, 4); }
std::string u64(uint64_t value) { return number(value, 8); }
std::string text(const std::string& value) { return u64(value.size()) + value; }

std::string padded(std::string bytes) {
  bytes.resize((bytes.size() + 31) / 32 * 32, '\0');
  return bytes;
}

TEST(GgufWriter, WritesTheFormatToTheByte) {
  TemporaryFolder folder;
  const std::vector<GgufEntry> entries = {{"a", uint32_t{7}},
                                          {"b", int32_t{-2}},
                                          {"c", 0.5F},
                                          {"d", true},
                                          {"e", std::string("two")},
                                          {"f", std::vector<std::string>{"x", ""}},
                                          {"g", std::vector<float>{1, -1}},
                                          {"h", std::vector<int32_t>{-1}},
                                          {"i", std::vector<bool>{true, false}}};
  GgufWriter writer(folder / "a.gguf", entries,
                    {{"one", GgufType::float32, {3}},
                     {"two", GgufType::q8_0, {2, 32}},
                     {"three", GgufType::bfloat16, {2, 1, 4}}});
  writer.append("one", bytes_of("0123"));
  writer.append("one", bytes_of("456789ab"));
  writer.append("two", bytes_of(std::string(68, 'q')));
  writer.append("three", bytes_of("ABCDEFGHIJKLMNOP"));
  writer.finish();

  const std::string head = "GGUF" + u32(3) + u64(3) + u64(9) +                            //
                           text("a") + u32(4) + u32(7) +                                  //
                           text("b") + u32(5) + u32(0xfffffffe) +                         //
                           text("c") + u32(6) + u32(0x3f000000) +                         //
                           text("d") + u32(7) + number(1, 1) +                            //
                           text("e") + u32(8) + text("two") +                             //
                           text("f") + u32(9) + u32(8) + u64(2) + text("x") + text("") +  //
                           text("g") + u32(9) + u32(6) + u64(2) + u32(0x3f800000) +
                           u32(0xbf800000) +                                                     //
                           text("h") + u32(9) + u32(5) + u64(1) + u32(0xffffffff) +              //
                           text("i") + u32(9) + u32(7) + u64(2) + number(1, 1) + number(0, 1) +  //
                           text("one") + u32(1) + u64(3) + u32(0) + u64(0) +                     //
                           text("two") + u32(2) + u64(32) + u64(2) + u32(8) + u64(32) +          //
                           text("three") + u32(3) + u64(4) + u64(1) + u64(2) + u32(30) + u64(128);
  EXPECT_EQ(read_file(folder / "a.gguf"), padded(head) + padded("0123456789ab") +
                                              padded(std::string(68, 'q')) +
                                              padded("ABCDEFGHIJKLMNOP"));
}

TEST(GgufWriter, LeavesTheOldFileWithoutFinish) {
  TemporaryFolder folder;
  const auto path = folder.write("a.gguf", "old");
  {
    GgufWriter writer(path, {}, {{"a", GgufType::float32, {1}}});
    writer.append("a", bytes_of("0123"));
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(GgufWriter, RefusesDataThatWasNotAnnounced) {
  TemporaryFolder folder;
  GgufWriter writer(folder / "a.gguf", {},
                    {{"a", GgufType::float32, {2}}, {"b", GgufType::float16, {1}}});
  EXPECT_THROW(writer.append("b", bytes_of("01")), InternalError);
  EXPECT_THROW(writer.append("a", bytes_of("012345678")), InternalError);
  writer.append("a", bytes_of("01234567"));
  EXPECT_THAT(message_of<InternalError>([&] { writer.finish(); }),
              HasSubstr("\"b\" lacks 2 bytes"));
  writer.append("b", bytes_of("01"));
  EXPECT_THROW(writer.append("b", bytes_of("01")), InternalError);
  writer.finish();
}

TEST(GgufWriter, RefusesWhatCannotBeRead) {
  TemporaryFolder folder;
  const int64_t huge = int64_t{1} << 62;
  const std::vector<std::vector<GgufTensorInfo>> lists = {
      {{"", GgufType::float32, {1}}},
      {{std::string(64, 'a'), GgufType::float32, {1}}},
      {{"\xff", GgufType::float32, {1}}},
      {{"a", GgufType::float32, {1}}, {"a", GgufType::float16, {1}}},
      {{"a", GgufType::float32, {}}},
      {{"a", GgufType::float32, {1, 1, 1, 1, 1}}},
      {{"a", GgufType::float32, {2, 0}}},
      {{"a", GgufType::q8_0, {32, 31}}},
  };
  for (const auto& tensors : lists)
    EXPECT_THROW(GgufWriter(folder / "a.gguf", {}, tensors), InternalError) << tensors[0].name;
  EXPECT_THROW(GgufWriter(folder / "a.gguf", {}, {{"a", GgufType::float32, {huge}}}), DataError);
  const std::vector<GgufEntry> twice = {{"a", true}, {"a", false}};
  EXPECT_THROW(GgufWriter(folder / "a.gguf", twice, {}), InternalError);
  EXPECT_EQ(folder.file_count(), 0u);
}

}  // namespace
}  // namespace longshore::data
