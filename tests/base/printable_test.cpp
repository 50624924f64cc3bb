#include "longshore/base/printable.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/base/print.h"
#include "longshore/base/utf8.h"

namespace longshore {
namespace {

// What a terminal obeys, in all spellings.
const std::string kPlanted =
    "\x1b]0;title\x07\x1b[31m\x7f\xc2\x9b"
    "31m\xe2\x80\xae\xff\xe2\x80\xa8\n";

std::string encoded(char32_t code) {
  auto rest = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), rest(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | code >> 12), rest(6), rest(0)};
  return {static_cast<char>(0xf0 | code >> 18), rest(12), rest(6), rest(0)};
}

bool is_surrogate(char32_t code) { return code >= 0xd800 && code < 0xe000; }

TEST(Printable, EscapesWhatATerminalObeysAndWhatShowsNothing) {
  EXPECT_EQ(printable(kPlanted), R"(\x1b]0;title\x07\x1b[31m\x7f\u009b31m\u202e\xff\u2028\n)");
  EXPECT_EQ(printable("\t\r\\x"), R"(\t\r\x)");
  EXPECT_EQ(printable(encoded(0xfeff) + encoded(0x200b) + encoded(0x2066) + encoded(0xe0041)),
            R"(\ufeff\u200b\u2066\U000e0041)");
}

// Of all characters, just these.
TEST(Printable, LeavesEveryOtherCharacterAsItIs) {
  int escaped = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (is_surrogate(code)) continue;
    const std::string character = encoded(code), shown = printable(character);
    if (shown == character) {
      const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
      const bool is_of_direction = code == 0x61c || (code >= 0x200e && code <= 0x200f) ||
                                   (code >= 0x202a && code <= 0x202e) ||
                                   (code >= 0x2066 && code <= 0x2069);
      ASSERT_FALSE(is_control || is_of_direction) << std::hex << static_cast<uint32_t>(code);
    } else {
      ++escaped;
      ASSERT_TRUE(shown.starts_with('\\')) << shown;
      for (char c : shown) ASSERT_TRUE(c > ' ' && c < 0x7f) << shown;
    }
  }
  EXPECT_LT(escaped, 300);
}

TEST(Printable, MakesUtf8OnOneLineOfAnyBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string shown = printable(bytes);
    ASSERT_EQ(valid_utf8_prefix(shown), shown.size());
    ASSERT_EQ(printable(shown), shown);
    for (const std::string& text : {excerpt(bytes, 20), in_quotes(bytes), path_text(bytes)})
      ASSERT_EQ(printable(text), text);
  }
}

TEST(Printable, ExcerptsAreCutBetweenCharactersAndSayTheLength) {
  EXPECT_EQ(excerpt(std::string(120, 'a')), std::string(120, 'a'));
  EXPECT_EQ(excerpt(std::string(121, 'a')), std::string(120, 'a') + "... (121 bytes)");
  EXPECT_EQ(excerpt("\u00e9\u00e9\u00e9", 5), "\u00e9\u00e9... (6 bytes)");
  EXPECT_EQ(excerpt(std::string(9, '\x80'), 6), R"(\x80\x80\x80... (9 bytes))");
  EXPECT_EQ(in_quotes(R"(say "\n")"), R"("say \"\\n\"")");
  EXPECT_EQ(in_quotes(std::string(121, 'a')), "\"" + std::string(120, 'a') + "...\" (121 bytes)");
  const std::string long_text = std::string(1'000'000, '\x1b');
  EXPECT_LT(excerpt(long_text).size(), 600u);
  EXPECT_LT(in_quotes(long_text).size(), 600u);
  EXPECT_LT(path_text(long_text).size(), 5000u);
}

TEST(Printable, APathKeepsItsEnds) {
  EXPECT_EQ(path_text("/a/\x1b[31m/b"), R"(/a/\x1b[31m/b)");
  const std::string deep = "/first" + std::string(3000, '/') + "last";
  EXPECT_TRUE(path_text(deep).starts_with("/first/")) << path_text(deep);
  EXPECT_TRUE(path_text(deep).ends_with("/last (3010 bytes)")) << path_text(deep);
}

TEST(Printable, OfATextLinesAndJoinedLettersStay) {
  const std::string persian = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\n\ta\u00adb";
  EXPECT_EQ(printable_lines(persian), persian);
  EXPECT_EQ(printable_lines("a\r\n\x1b[2J"), "a\\r\n\\x1b[2J");
}

// The net below all messages.
TEST(Print, LetsNothingThroughThatATerminalObeys) {
  testing::internal::CaptureStderr();
  print(stderr, "first\n  second " + kPlanted + std::string(100'000, 'x') + "\n\nlast");
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed.substr(0, printed.find("xx")),
            "first\n  second \\x1b]0;title\\x07\\x1b[31m\\x7f\\u009b31m\\u202e\\xff\\u2028\n");
  EXPECT_TRUE(printed.ends_with("x... (100000 bytes)\n\nlast")) << printed.size();
  EXPECT_LT(printed.size(), 9000u);
}

TEST(Print, IsHowAnErrorEndsAProgram) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code_of("program", [] { throw DataError("tensor " + kPlanted); }), 1);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(printable_lines(printed), printed);
  EXPECT_TRUE(printed.starts_with("program: tensor \\x1b]0;")) << printed;
}

}  // namespace
}  // namespace longshore
