// Questions of multiple choice, from records to rows.
#include "longshore/data/text/choice_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/rows/scored_rows.h"
#include "longshore/data/text/encode_choices.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(std::string_view record) {
  return message_of<DataError>([&] { read_choices(record); });
}

TEST(ChoiceRecord, AnswersByNumberOrText) {
  for (const char* answer : {"1", R"(" Oslo")", R"("Oslo")"}) {
    const ChoiceRecord record =
        read_choices(R"({"prompt": "Norway:", "choices": [" Paris", " Oslo"], "x": 1, "answer": )" +
                     std::string(answer) + "}");
    EXPECT_EQ(record.prompt, "Norway:");
    EXPECT_THAT(record.choices, ElementsAre(" Paris", " Oslo"));
    EXPECT_EQ(record.answer, 1u) << answer;
  }
  // A text first, where choices are numbers.
  EXPECT_EQ(read_choices(R"({"prompt": "", "choices": ["1", "0"], "answer": "0"})").answer, 1u);
  EXPECT_EQ(read_choices(R"({"prompt": "", "choices": ["1", "0"], "answer": 0})").answer, 0u);
}

TEST(ChoiceRecord, RefusesWhatIsNone) {
  const auto with = [](const std::string& choices, const std::string& answer) {
    return refusal(R"({"prompt": "a", "choices": )" + choices + R"(, "answer": )" + answer + "}");
  };
  EXPECT_EQ(refusal(R"({"prompt": "a", "choises": ["a", "b"], "answer": 0})"),
            "expected prompt, choices and answer, found no choices; nearest: \"choises\"");
  EXPECT_EQ(with(R"("a")", "0"), "choices: expected a list of strings, found a string");
  EXPECT_EQ(with(R"(["a"])", "0"), "choices: found 1, expected 2 to 64");
  EXPECT_EQ(with(R"(["a", 2])", "0"), "choices[1]: expected a string, found 2");
  EXPECT_EQ(with(R"(["a", " \n"])", "0"),
            "choices[1]: found white space alone, expected some text");
  EXPECT_EQ(with(R"(["", "a"])", "0"), "choices[0]: found nothing, expected some text");
  const std::string expected = ", expected one of the choices, or its number, from 0 to 1";
  for (const char* wrong : {"2", "-1", "18446744073709551616", "0.5", "null", "true"})
    EXPECT_THAT(with(R"(["a", "b"])", wrong), HasSubstr(expected)) << wrong;
  EXPECT_EQ(with(R"(["Paris", "Oslo"])", R"("Osl")"),
            "answer: found \"Osl\"" + expected + "; nearest: Oslo");
  EXPECT_EQ(with(R"(["a", " a"])", R"("a")"),
            "answer: found \"a\", which two of the choices are" + expected);
  EXPECT_THAT(refusal("{\"prompt\": \"\xff\"}"), HasSubstr("invalid UTF-8"));
  TemporaryFolder folder;
  const std::filesystem::path path = folder.write("a.jsonl", "\n{}\n");
  EXPECT_THAT(message_of<DataError>(
                  [&] { read_choices(path, [](const ChoiceRecord&, const std::string&) {}); }),
              HasSubstr("a.jsonl:2: expected prompt, choices and answer, found no prompt"));
}

// lm-evaluation-harness's _encode_pair().
TEST(EncodeChoices, SplitsOneTextWhereThePromptAloneEnds) {
  for (const char* name : {"bytelevel_bpe_llama3", "llama2_bpe", "sp_bpe"}) {
    const Tokenizer tokenizer(std::filesystem::path("tests/goldens/tokenizers") / name);
    constexpr int32_t kOpening = 7;
    const ChoiceRecord record{
        .prompt = "The boats wait: ", .choices = {"caf\u00e9", " the \u65e5\u672c"}, .answer = 0};
    const std::vector<EncodedChoice> encoded = encode_choices(record, kOpening, tokenizer, 64);
    ASSERT_EQ(encoded.size(), 2u);
    const auto encode = [&](const std::string& text) {
      std::vector<int32_t> tokens = tokenizer.encode(text);
      tokens.insert(tokens.begin(), kOpening);
      return tokens;
    };
    const std::vector<int32_t> context = encode("The boats wait:");
    for (size_t i = 0; i < 2; ++i) {
      const ScoredSequence& sequence = encoded[i].sequence;
      EXPECT_EQ(sequence.tokens, encode(record.prompt + record.choices[i])) << name;
      EXPECT_EQ(sequence.context, std::ssize(context)) << name;
      EXPECT_FALSE(encoded[i].is_cut);
    }
    EXPECT_EQ(encoded[0].characters, 4);
    EXPECT_EQ(encoded[0].bytes, 5);
    EXPECT_EQ(encoded[1].characters, 6);
    EXPECT_EQ(encoded[1].bytes, 10);

    // Of a context that is too long its end stays.
    const std::vector<int32_t>& whole = encoded[1].sequence.tokens;
    const auto scored = std::ssize(whole) - std::ssize(context);
    const EncodedChoice cut = encode_choices(record, kOpening, tokenizer, scored)[1];
    EXPECT_TRUE(cut.is_cut);
    EXPECT_EQ(cut.sequence.context, 1);
    EXPECT_EQ(cut.sequence.tokens, std::vector<int32_t>(whole.end() - scored - 1, whole.end()));
    EXPECT_THAT(
        message_of<DataError>([&] { encode_choices(record, kOpening, tokenizer, scored - 1); }),
        HasSubstr("choices[1]: found " + std::to_string(scored) + " tokens, expected at most " +
                  std::to_string(scored - 1) + ", those of a row"));

    // Without a prompt the opening alone stands before it.
    const EncodedChoice alone =
        encode_choices({.prompt = "", .choices = {"a", "b"}}, kOpening, tokenizer, 64)[1];
    EXPECT_EQ(alone.sequence.context, 1);
    EXPECT_EQ(alone.sequence.tokens, encode("b"));
  }
}

// What merges with the prompt's end is no token of its own.
TEST(EncodeChoices, RefuseAChoiceThatAddsNoToken) {
  const Tokenizer tokenizer("tests/goldens/tokenizers/bytelevel_bpe_llama3");
  for (const std::string word : {"er", "in", "on", "the", "and"}) {
    const std::string head = word.substr(0, word.size() - 1), rest = word.substr(word.size() - 1);
    if (tokenizer.encode(word).size() > tokenizer.encode(head).size()) continue;
    EXPECT_EQ(message_of<DataError>([&] {
                encode_choices({.prompt = head, .choices = {rest, " a"}}, 0, tokenizer, 64);
              }),
              "choices[0]: found no token behind those of the prompt, expected some");
    return;
  }
  FAIL() << "no such word";
}

TEST(ScoredRows, HoldEachSequenceOnceAndScoreItsEnd) {
  std::vector<ScoredSequence> sequences;
  for (int32_t i = 0; i < 40; ++i) {
    ScoredSequence sequence{.context = 1 + i % 3};
    for (int32_t t = 0; t < 4 + i * 7 % 12; ++t) sequence.tokens.push_back(100 * i + t);
    sequences.push_back(sequence);
  }
  constexpr int64_t kLength = 32, kMost = 4;
  const ScoredRows rows(sequences, {.length = kLength, .sequences_per_row = kMost});
  EXPECT_GE(rows.count(), 10);
  EXPECT_LT(rows.count(), 20);
  std::map<std::pair<int64_t, int32_t>, size_t> by_place;
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_LE(rows.places()[i].segment, kMost);
    EXPECT_TRUE(
        by_place.emplace(std::pair(rows.places()[i].row, rows.places()[i].segment), i).second);
  }
  size_t found = 0;
  for (int64_t row = 0; row < rows.count(); ++row) {
    Batch batch = padding({1, kLength});
    rows.read(row, Row(batch, 0));
    for (size_t at = 0; at < kLength; ++at) {
      const int32_t segment = batch[kSegments][at];
      if (segment == kPadding) {
        EXPECT_EQ(batch[kTargets][at], kIgnoredTarget);
        continue;
      }
      const ScoredSequence& sequence = sequences[by_place.at({row, segment})];
      const auto t = static_cast<size_t>(batch[kPositions][at]);
      EXPECT_EQ(batch[kTokens][at], sequence.tokens.at(t));
      const bool is_scored = static_cast<int64_t>(t) + 1 >= sequence.context;
      EXPECT_EQ(batch[kTargets][at], is_scored ? sequence.tokens.at(t + 1) : kIgnoredTarget);
      found += t == 0;
    }
  }
  EXPECT_EQ(found, sequences.size());
  EXPECT_THROW(ScoredRows({{.tokens = {1, 2, 3}, .context = 3}}, {.length = 4}), InternalError);
  EXPECT_THROW(ScoredRows({{.tokens = {1, 2, 3}, .context = 1}}, {.length = 1}), InternalError);
}

}  // namespace
}  // namespace longshore::data
