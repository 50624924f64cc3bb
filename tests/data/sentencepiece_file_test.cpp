#include "longshore/data/tokenizers/sentencepiece_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "longshore/data/tokenizers/tokenizer.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

const char* const kModel = "tests/goldens/tokenizers/sp_bpe/tokenizer.model";

// The protobuf wire format, as far as a model file needs it.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number_field(uint64_t number, uint64_t value) {
  return varint(number << 3) + varint(value);
}
std::string bytes_field(uint64_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string user_symbol(const std::string& text) {
  return bytes_field(1, bytes_field(1, text) + number_field(3, 4));
}
std::string normalizer(const std::string& rules) { return bytes_field(3, bytes_field(2, rules)); }

// The normaliser's trie, unit by unit. Units that no text reaches match no label.
struct Trie {
  std::vector<uint32_t> units;

  explicit Trie(size_t blocks) : units(256 * blocks, uint32_t{1} << 31) {}

  // Where the units of one level are addressed from, in a block of its own.
  static uint32_t place(uint32_t level) { return level * 256 + 0x80; }

  // The rules "a", "aa", ... up to `depth` letters, all replaced by what stands at offset 0.
  static Trie of_nested_rules(uint32_t depth) {
    Trie trie(depth + 1);
    trie.units[0] = place(0) << 10;
    for (uint32_t level = 0; level < depth; ++level) {
      const uint32_t at = place(level) ^ 'a';
      trie.units[at] = (at ^ place(level + 1)) << 10 | 1 << 8 | 'a';
    }
    return trie;
  }

  uint32_t& letter_a() { return units[place(0) ^ 'a']; }

  std::string rules(const std::string& replacements) const {
    const auto size = static_cast<uint32_t>(units.size() * 4);
    std::string bytes(4 + size, '\0');
    std::memcpy(bytes.data(), &size, 4);
    std::memcpy(bytes.data() + 4, units.data(), size);
    return bytes + replacements;
  }
};

const std::string kReplacement("b\0", 2);

void expect_fault(const std::string& added, const std::string& expected) {
  const std::string fault = fault_in_sentencepiece_file(read_file(kModel) + added);
  EXPECT_THAT(fault, HasSubstr(expected));
}

void expect_good(const std::string& added) {
  EXPECT_EQ(fault_in_sentencepiece_file(read_file(kModel) + added), "");
}

TEST(SentencepieceFile, RealModelsAreGood) {
  for (const char* name : {"sp_bpe", "sp_bpe_gemma", "sp_unigram"})
    EXPECT_EQ(fault_in_sentencepiece_file(
                  read_file(std::string("tests/goldens/tokenizers/") + name + "/tokenizer.model")),
              "");
}

// Shows that the hand-made trie is what sentencepiece reads, so the faults below are its faults.
TEST(SentencepieceFile, AHandMadeRuleWorks) {
  TemporaryFolder folder;
  const std::string rules = Trie::of_nested_rules(1).rules(kReplacement);
  expect_good(normalizer(rules));
  const Tokenizer plain(kModel);
  const Tokenizer changed(folder.write("a.model", read_file(kModel) + normalizer(rules)));
  EXPECT_NE(plain.encode("a cab"), plain.encode("b cbb"));
  EXPECT_EQ(changed.encode("a cab"), plain.encode("b cbb"));
}

TEST(SentencepieceFile, FindsRulesThatLeadOutside) {
  auto trie = Trie::of_nested_rules(1);
  trie.letter_a() = 0xffff << 10 | 'a';
  expect_fault(normalizer(trie.rules(kReplacement)), "leads outside");
  trie.letter_a() = 0xffff << 10 | 1 << 9 | 'a';  // the offset counts in blocks
  expect_fault(normalizer(trie.rules(kReplacement)), "leads outside");
  trie.units[0] = 0xffff << 10;
  expect_fault(normalizer(trie.rules(kReplacement)), "leads outside");
}

TEST(SentencepieceFile, FindsRulesThatNeverEnd) {
  auto trie = Trie::of_nested_rules(1);
  trie.letter_a() = uint32_t{'a'} << 10 | 'a';  // back to the first level
  expect_fault(normalizer(trie.rules(kReplacement)), "cycle");
}

TEST(SentencepieceFile, FindsTooManyNestedRules) {
  expect_good(normalizer(Trie::of_nested_rules(32).rules(kReplacement)));
  expect_fault(normalizer(Trie::of_nested_rules(33).rules(kReplacement)), "nests too many");
}

TEST(SentencepieceFile, FindsBrokenRules) {
  const Trie trie = Trie::of_nested_rules(1);
  expect_fault(normalizer("abc"), "cut off");
  expect_fault(normalizer(trie.rules("")), "normaliser trie of 2048 bytes within 2048");
  expect_fault(normalizer(trie.rules("b")), "without an end");
  expect_fault(normalizer(trie.rules(std::string(101, 'b') + '\0')), "too long");
  expect_good(normalizer(trie.rules(std::string(100, 'b') + '\0')));
  std::string odd = trie.rules(kReplacement);
  odd[0] = 1;
  expect_fault(normalizer(odd), "normaliser trie of 2049 bytes");
  // The rules for decoding are no safer.
  expect_fault(bytes_field(5, bytes_field(2, "abc")), "cut off");
}

TEST(SentencepieceFile, FindsTooManyNestedUserSymbols) {
  TemporaryFolder folder;
  const std::string letter = "\xc2\xa4";
  std::string symbols, text;
  for (int i = 0; i < 64; ++i) symbols += user_symbol(text += letter);
  expect_good(symbols);
  const Tokenizer tokenizer(folder.write("a.model", read_file(kModel) + symbols));
  EXPECT_EQ(tokenizer.encode(text).back(), tokenizer.vocab_size() - 1);
  expect_fault(symbols + user_symbol(text + letter), "begin one another");
  expect_good(symbols + user_symbol("another"));
}

TEST(SentencepieceFile, FindsWhatWouldTakeTooLong) {
  expect_good(user_symbol(std::string(1024, 'x')));
  expect_fault(user_symbol(std::string(1025, 'x')), "piece of 1025 bytes");
  expect_fault(bytes_field(4, std::string((1 << 20) + 1, 'x')), "self-test");
}

TEST(SentencepieceFile, FindsWhatIsNoMessage) {
  EXPECT_EQ(fault_in_sentencepiece_file(""), "no pieces");
  EXPECT_EQ(fault_in_sentencepiece_file(number_field(9, 1)), "no pieces");
  EXPECT_EQ(fault_in_sentencepiece_file("\x0a"), "number cut off at byte 1 of 1");
  EXPECT_EQ(fault_in_sentencepiece_file("\x0a\x05x"), "field cut off at byte 2 of 3");
  EXPECT_EQ(fault_in_sentencepiece_file("some text"), "unknown wire type at byte 1 of 9");
  EXPECT_THAT(fault_in_sentencepiece_file(std::string(20, '\xff')), HasSubstr("more than 64 bits"));
}

}  // namespace
}  // namespace longshore::data
