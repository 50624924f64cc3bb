#include "longshore/data/tokenizers/split_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "longshore/base/error.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

using Pieces = std::vector<std::string_view>;

Pieces split(const std::string& pattern, std::string_view text) {
  std::vector<SplitPart> parts;
  SplitPattern(pattern).split(text, parts);
  Pieces pieces;
  for (const SplitPart& part : parts) pieces.push_back(part.text);
  return pieces;
}

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TEST(SplitPattern, CutsAsLlama3Does) {
  EXPECT_EQ(split(kLlama3, "It'S 12345  ok!\n\n x "),
            (Pieces{"It", "'S", " ", "123", "45", " ", " ok", "!\n\n", " x", " "}));
  EXPECT_EQ(split(kLlama3, ""), Pieces{});
  EXPECT_EQ(split(kLlama3, "gr\xc3\xbc\xc3\x9f"), (Pieces{"gr\xc3\xbc\xc3\x9f"}));
}

TEST(SplitPattern, KeepsWhatDoesNotMatch) {
  EXPECT_EQ(split("[0-9]+",
                  "ab12\xe2\x82\xac"
                  "3c"),
            (Pieces{"ab", "12", "\xe2\x82\xac", "3", "c"}));
  EXPECT_EQ(split("x", "abc"), (Pieces{"abc"}));
}

// U+180E is white space to PCRE2 alone; U+0085 and U+3000 are to both.
TEST(SplitPattern, WhiteSpaceIsThatOfUnicode) {
  EXPECT_EQ(split(R"(\s+)", "\xe1\xa0\x8e"), (Pieces{"\xe1\xa0\x8e"}));
  EXPECT_EQ(split(R"(\S)", "\xe1\xa0\x8e\xc2\x85\xe3\x80\x80"),
            (Pieces{"\xe1\xa0\x8e", "\xc2\x85\xe3\x80\x80"}));
  EXPECT_EQ(split(R"([^\s]+)",
                  "a\xe1\xa0\x8e"
                  "b\xc2\x85"),
            (Pieces{"a\xe1\xa0\x8e"
                    "b",
                    "\xc2\x85"}));
}

// U+3002 is of no script itself, but used with Han; U+30FB and U+30FC likewise with Katakana.
TEST(SplitPattern, ScriptsAreThoseOfTheCharactersThemselves) {
  EXPECT_EQ(split(R"(\p{Han}+)", "\xe4\xb8\xad\xe3\x80\x82"),
            (Pieces{"\xe4\xb8\xad", "\xe3\x80\x82"}));
  for (const std::string mark : {"\xe3\x83\xbb", "\xe3\x83\xbc"})
    EXPECT_EQ(split(R"([\p{Katakana}]+)", "\xe3\x82\xa2" + mark), (Pieces{"\xe3\x82\xa2", mark}));
}

// The machine's PCRE2 may be older or newer than Unicode 16: two emoji of 2022 and 2023, and two
// ideographs of the same years.
TEST(SplitPattern, NewCharactersAreWhatTheyAreToTokenizers) {
  for (const std::string symbol : {"\U0001fae8", "\U0001fa77"})
    EXPECT_EQ(split(R"(\p{S}+)", "a" + symbol), (Pieces{"a", symbol}));
  for (const std::string ideograph : {"\U00031350", "\U0002ebf0"})
    EXPECT_EQ(split(kLlama3, "x" + ideograph), (Pieces{"x" + ideograph}));
  const std::string unicode_17 = "\U000323b0";  // an ideograph, and unassigned in Unicode 16
  EXPECT_EQ(split(kLlama3, "x" + unicode_17), (Pieces{"x", unicode_17}));
}

TEST(SplitPattern, CasesAreThoseOfAscii) {
  EXPECT_EQ(split("(?i:'s)", "a'\u017f'S"), (Pieces{"a", "'\u017f", "'S"}));
  EXPECT_EQ(split("(?i:[ik])", "\u212ai\u0131"), (Pieces{"\u212a", "i", "\u0131"}));
}

TEST(SplitPattern, ClassesAreUnionsAndComplements) {
  const std::string text = "aB1 \u00e9\u4e2d!";
  EXPECT_EQ(split(R"([\P{L}b-y]+)", text), (Pieces{"aB", "1 ", "\u00e9\u4e2d", "!"}));
  EXPECT_EQ(split(R"([^\P{L}B]+)", text), (Pieces{"a", "B1 ", "\u00e9\u4e2d", "!"}));
  EXPECT_EQ(split(R"([\D]+)", text), (Pieces{"aB", "1", " \u00e9\u4e2d!"}));
}

// A text becomes a byte for each character, which tells what sets it is in.
TEST(SplitPattern, TellsAtMost256KindsOfCharactersApart) {
  std::string pattern;
  for (int c = 0; c < 255; ++c) {
    pattern += (c > 0 ? "|" : "") + std::string("\xe4") + static_cast<char>(0xb8 + c / 64) +
               static_cast<char>(0x80 + c % 64);
  }
  EXPECT_EQ(split(pattern, "\u4e2d\u4e2d"), (Pieces{"\u4e2d", "\u4e2d"}));
  EXPECT_THAT(message_of<DataError>([&] { SplitPattern{pattern + "|a"}; }),
              HasSubstr("expected one that tells at most 256 kinds of characters apart"));
}

// A letter of each.
TEST(SplitPattern, KnowsScriptsByName) {
  for (const auto& [name, letter] : {std::pair{"Devanagari", "\u0915"},
                                     {"Ethiopic", "\u1200"},
                                     {"Georgian", "\u10d0"},
                                     {"Khmer", "\u1780"},
                                     {"Mongolian", "\u1820"},
                                     {"Tamil", "\u0b95"},
                                     {"Tibetan", "\u0f40"}})
    EXPECT_EQ(split("\\p{" + std::string(name) + "}+", std::string("a") + letter),
              (Pieces{"a", letter}))
        << name;
}

// What the two libraries read differently, or what could take for ever.
TEST(SplitPattern, RefusesWhatItCannotVouchFor) {
  for (const char* pattern : {R"(\w+)",
                              R"(\h+)",
                              R"(\v)",
                              R"(^a)",
                              R"(a$)",
                              ".",
                              R"(\bx)",
                              R"(\x41)",
                              R"(\1a)",
                              "(a)*",
                              "(a+)+",
                              "(a|aa)+b",
                              "(a){2}",
                              "a{,3}",
                              "a{1,2}+",
                              "a{1,2}?",
                              "a**",
                              "[[:alpha:]]",
                              "[a-z&&b]",
                              "[^]]",
                              "[z-a]",
                              R"([^\s\S])",
                              R"([^\p{L}\P{L}])",
                              "[]a]",
                              "(?<x>a)",
                              "(?<=a)b",
                              "(?>a)",
                              "(?#c)a",
                              "(?i)a",
                              R"((?i:\p{Lu}))",
                              "(?i:ss)",
                              "(?i:'S[sa])",
                              "(?i:[as]s)",
                              "(?i:\xc3\x9f)",
                              R"(\p{Foo}a)",
                              R"(\p{^L}a)",
                              R"([\s-z])",
                              R"([\S])",
                              "a*",
                              "a|",
                              "(a",
                              "a)",
                              "[a",
                              R"(a\)",
                              "\xff",
                              "a{99999}",
                              "(?=a)",
                              "*PRUNE"}) {
    const std::string message = message_of<DataError>([&] { SplitPattern{pattern}; });
    EXPECT_TRUE(message.starts_with("regular expression \"")) << pattern << ": " << message;
    EXPECT_THAT(message, HasSubstr("expected")) << pattern;
  }
  EXPECT_THROW(SplitPattern(std::string(40, '(') + "a" + std::string(40, ')')), DataError);
  EXPECT_THROW(SplitPattern(std::string(20000, 'a')), DataError);
}

TEST(SplitPattern, TakesWhatTokenizersUse) {
  for (const char* pattern :
       {kLlama3, R"((?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+| ?[^\s\p{L}\p{N}]++[\r\n]*|\s+)",
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{M}]*[\p{Ll}]+(?i:'s|'t)?|\s+)", R"(\p{N}{1,3})",
        "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f]+", R"(\d|[A-Za-z_\-\]]+|\P{L})",
        R"((?:a|b)?c(?=d)|\{x\}|a+?b)"})
    EXPECT_NO_THROW(SplitPattern{pattern}) << pattern;
}

TEST(SplitPattern, WorkIsLimited) {
  // Each step back of one star tries all lengths of the next.
  std::string pattern;
  for (int i = 0; i < 8; ++i) pattern += "[ab]*a[ab]*";
  const std::string message =
      message_of<DataError>([&] { split(pattern + "x", std::string(3000, 'a') + "-x"); });
  EXPECT_THAT(message, HasSubstr("match limit exceeded"));
}

TEST(SplitPattern, LongRunsTakeNoStack) {
  const std::string run(4 << 20, ' ');
  const std::string text = run + "x";
  EXPECT_EQ(split(kLlama3, text), (Pieces{std::string_view(text).substr(0, run.size() - 1), " x"}));
}

}  // namespace
}  // namespace longshore::data
