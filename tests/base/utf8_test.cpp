#include "longshore/base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace longshore {
namespace {

std::string encode(uint32_t code, int length) {
  if (length == 1) return {static_cast<char>(code)};
  std::string bytes;
  for (int i = length - 1; i > 0; --i)
    bytes.insert(bytes.begin(), static_cast<char>(0x80 | (code >> (6 * (length - 1 - i)) & 0x3f)));
  const uint32_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
  bytes.insert(bytes.begin(), static_cast<char>(marks[length] | code >> (6 * (length - 1))));
  return bytes;
}

// Every code in every length that can hold it: valid in the shortest one, and if no surrogate.
TEST(Utf8, JudgesEveryCodeInEveryLength) {
  for (uint32_t code = 0; code < 0x200000; ++code) {
    const int shortest = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const bool assignable = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    for (int length = shortest; length <= 4; ++length) {
      const std::string bytes = encode(code, length);
      const size_t expected = length == shortest && assignable ? bytes.size() : 0;
      ASSERT_EQ(valid_utf8_prefix(bytes), expected) << code << " in " << length;
      ASSERT_EQ(character_length(bytes), expected) << code << " in " << length;
    }
  }
}

TEST(Utf8, FindsTheFirstFaultAtAnyPlace) {
  const std::string euro = "\xe2\x82\xac";
  for (size_t before = 0; before < 20; ++before)
    for (size_t after = 0; after < 20; ++after) {
      const std::string start = std::string(before, 'a') + euro;
      const std::string end = std::string(after, 'b');
      EXPECT_EQ(valid_utf8_prefix(start + end), start.size() + after);
      for (const char* fault : {"\xff", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc0\x80"})
        EXPECT_EQ(valid_utf8_prefix(start + fault + end), start.size());
    }
  EXPECT_EQ(valid_utf8_prefix(""), 0u);
}

TEST(Utf8, ReadsBackEveryCharacter) {
  for (uint32_t code = 0; code <= 0x10ffff; ++code) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const Character character = first_character(encode(code, length));
    ASSERT_EQ(character.code_point, code);
    ASSERT_EQ(character.bytes, static_cast<size_t>(length));
  }
}

// The example of the Unicode standard (table 3-8 and following), and parts at the end.
TEST(Utf8, ReplacesEachPartOfACharacterOnce) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(replace_invalid_utf8("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(replace_invalid_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80\xed\xbf\xbf"), r + r + r + r + r + r);
  EXPECT_EQ(replace_invalid_utf8("\xf4\x91\x92\x93\xff"), r + r + r + r + r);
  EXPECT_EQ(replace_invalid_utf8("x\xf0\x9f\x98"), "x" + r);
  EXPECT_EQ(replace_invalid_utf8("\xe2\x82"), r);
  EXPECT_EQ(replace_invalid_utf8("\xe2\x82\xac!"), "\xe2\x82\xac!");
}

}  // namespace
}  // namespace longshore
