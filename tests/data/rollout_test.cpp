// Rollouts, from records to rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <filesystem>

#include "longshore/base/error.h"
#include "longshore/data/rows/batches.h"
#include "longshore/data/rows/document_rows.h"
#include "longshore/data/rows/held_out.h"
#include "longshore/data/text/encode_example.h"
#include "longshore/data/text/tokenize_files.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kTokenizer = "tests/goldens/tokenizers/sp_bpe/tokenizer.model";

ReadExample read(std::string_view record, const std::vector<std::string>& columns = {}) {
  return read_example(record, {.columns = columns, .kind = ExampleKind::rollout});
}

std::string refusal(std::string_view record, const std::vector<std::string>& columns = {}) {
  static const Tokenizer tokenizer(kTokenizer);
  return message_of<DataError>([&] { encode(read(record, columns).example, tokenizer); });
}

TEST(Rollout, HasTheTokensThatWereDrawn) {
  const Tokenizer tokenizer(kTokenizer);
  const ReadExample drawn = read(
      R"({"prompt_ids": [5, 6], "completion_ids": [7, 8, 9], "advantages": -0.5,
          "old_log_probs": [-1, -2.5, 0], "completion_mask": [1, 0, true], "other": "x"})");
  EXPECT_EQ(drawn.form,
            "prompt_ids, completion_ids, advantages, old_log_probs and completion_mask");
  EXPECT_FALSE(drawn.takes_template);
  EXPECT_THAT(drawn.beside, ElementsAre("advantages", "old_log_probs"));
  const std::vector<Document> documents = encode(drawn.example, tokenizer);
  ASSERT_EQ(documents.size(), 1u);
  EXPECT_THAT(documents[0].tokens, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(documents[0].carries_loss, ElementsAre(0, 0, 1, 0, 1));
  EXPECT_THAT(documents[0].beside, ElementsAre(0, 0, 0, 0, -0.5, -1, -0.5, -2.5, -0.5, 0));

  const ReadExample with_reference = read(
      R"({"prompt_ids": [5], "completion_ids": [7, 8], "advantages": [1, 2],
          "reference_log_probs": [-3, -4]})");
  EXPECT_EQ(with_reference.form, "prompt_ids, completion_ids, advantages and reference_log_probs");
  const std::vector<float> beside = encode(with_reference.example, tokenizer)[0].beside;
  ASSERT_EQ(beside.size(), 9u);
  EXPECT_TRUE(std::isnan(beside[4]) && std::isnan(beside[7]));
  EXPECT_EQ(beside[3], 1);
  EXPECT_EQ(beside[6], 2);
  EXPECT_EQ(beside[8], -4);
}

TEST(Rollout, MayBeOfText) {
  const Tokenizer tokenizer(kTokenizer);
  const Example text =
      read(R"({"q": "the boat", "a": " waits", "score": 2})", {"q", "a", "score"}).example;
  const Document document = encode(text, tokenizer)[0];
  const Document same = encode(CompletionExample{"the boat", " waits"}, tokenizer)[0];
  EXPECT_EQ(document.tokens, same.tokens);
  EXPECT_EQ(document.carries_loss, same.carries_loss);
  for (size_t i = 0; i < document.tokens.size(); ++i)
    EXPECT_EQ(document.beside[2 * i], document.carries_loss[i] == 1 ? 2 : 0);

  const ReadExample chat = read(
      R"({"prompt": [{"role": "user", "content": "Hi"}], "advantages": 1,
          "completion": [{"role": "assistant", "content": "Ho"}]})");
  EXPECT_TRUE(chat.takes_template);
  EXPECT_EQ(
      encode(chat.example, tokenizer, {.chat_template = ChatTemplate::named("llama2")}).size(), 1u);
}

TEST(Rollout, SaysWhatDoesNotSuit) {
  const std::string ids = R"({"prompt_ids": [5], "completion_ids": [7, 8], )";
  EXPECT_EQ(refusal(ids + R"("advantages": [1, 2, 3]})"),
            "advantages: found 3 numbers, expected 2, one for each token of the completion; "
            "nearest: prompt_ids and completion_ids, which have the tokens as they were drawn");
  EXPECT_THAT(refusal(ids + R"("advantages": 1, "old_log_probs": [-1]})"),
              HasSubstr("old_log_probs: found 1 number, expected 2"));
  EXPECT_THAT(refusal(ids + R"("advantages": 1, "old_log_probs": [-1, 1e39]})"),
              HasSubstr("old_log_probs[1]: found 1e+39, expected a number that is less large"));
  EXPECT_EQ(refusal(ids + R"("advantages": "one"})"),
            "advantages: expected a number, found a string");
  EXPECT_THAT(refusal(ids + R"("advantages": 1, "completion_mask": [1, 2]})"),
              HasSubstr("completion_mask[1]: expected 0 or 1, found 2"));
  EXPECT_THAT(
      refusal(ids + R"("advantages": 1, "completion_mask": [1]})"),
      HasSubstr("completion_mask: found 1 number, expected 2, one for each of completion_ids"));
  EXPECT_THAT(refusal(ids + R"("advantages": 1, "completion_mask": [0, 0]})"),
              HasSubstr("found nothing to learn"));
  EXPECT_THAT(refusal(R"({"prompt_ids": [], "completion_ids": [7], "advantages": 1})"),
              HasSubstr("prompt_ids: found nothing, expected the tokens"));
  EXPECT_THAT(refusal(R"({"prompt_ids": [5], "completion_ids": [70000], "advantages": 1})"),
              HasSubstr("found the token id 70000, expected one below 850, as "));
  for (const char* id : {"-1", "1.5", "2147483648", "18446744073709551615", "\"a\"", "null"})
    EXPECT_THAT(refusal(std::string(R"({"prompt_ids": [5, )") + id +
                        R"(], "completion_ids": [7], "advantages": 1})"),
                HasSubstr("prompt_ids[1]: expected a token id, found "))
        << id;
  EXPECT_THAT(refusal(ids + R"("x": 1})"), HasSubstr("found no \"advantages\""));
  EXPECT_THAT(refusal(R"({"completion_ids": [7], "advantages": 1})"),
              HasSubstr("found no \"prompt_ids\""));
  for (const char* name : {"old_log_probs", "reference_log_probs"})
    EXPECT_THAT(refusal(ids + R"("advantages": 1, ")" + name + R"(": []})"),
                HasSubstr(std::string(name) + ": found nothing, expected a log-probability"));
  EXPECT_THAT(refusal(ids + R"("advantages": 1, "old_log_probs": [-1, 5]})"),
              HasSubstr("old_log_probs[1]: found 5, expected a log-probability, at most 0"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "completion": " b", "advantages": 1,
                          "completion_mask": [1]})"),
              HasSubstr("completion_mask: found beside text, expected it beside prompt_ids"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "completion": " b", "advantages": 1,
                          "old_log_probs": [-1, -1, -1, -1, -1, -1]})"),
              HasSubstr("old_log_probs: found 6 numbers, expected "));
  EXPECT_THAT(refusal(R"({"text": "a"})"),
              HasSubstr("expected rollouts: prompt_ids, completion_ids and advantages, or prompt"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "chosen": "b"})", {"prompt", "chosen"}),
              HasSubstr("expected three columns of rollouts"));
}

TEST(Rollout, StandsInARowWithWhatIsBesideIt) {
  TemporaryFolder folder;
  const Tokenizer tokenizer(kTokenizer);
  std::string lines;
  for (int i = 0; i < 6; ++i)
    lines += R"({"prompt_ids": [5, )" + std::to_string(i / 2 + 10) +
             R"(], "completion_ids": [7, )" + std::to_string(i + 20) + R"(], "advantages": [)" +
             std::to_string(i) + ", " + std::to_string(-i) + R"(], "old_log_probs": [-1, -2]})" +
             "\n";
  const std::vector<std::filesystem::path> inputs{folder.write("a.jsonl", lines)};
  tokenize_files(tokenizer, inputs, folder / "a.tokens", {.kind = ExampleKind::rollout});
  const auto file = std::make_shared<const TokenFile>(folder / "a.tokens");
  file->verify({});
  EXPECT_EQ(file->columns(),
            (std::vector{TokenColumn{"advantages"}, TokenColumn{"old_log_probs"}}));
  std::vector<float> values(2);
  file->read_column("advantages", 4 + 2, 1, std::span(values));
  EXPECT_THAT(values, ElementsAre(1, -1));

  // Both answers to a prompt are held out together.
  const HeldOutDocuments held_out(*file, 0.5);
  for (int64_t i = 0; i < 6; i += 2) EXPECT_EQ(held_out.contains(i), held_out.contains(i + 1));

  const auto rows =
      std::make_shared<const DocumentRows>(file, DocumentRowsOptions{.length = 7, .packing = true});
  BatchSchema schema(rows->count(), 7);
  for (const char* name : {kAdvantages, kOldLogProbs})
    schema.inputs.push_back({.name = name, .element = Element::float32, .per_row = 7});
  schema.counted = Counted::answers;
  const Batch batch = sequential_batches(rows, schema)(0);
  EXPECT_EQ(batch.total_weights, 6);
  const auto& advantages = std::get<std::vector<float>>(batch.inputs.at(kAdvantages));
  const auto& old = std::get<std::vector<float>>(batch.inputs.at(kOldLogProbs));
  int trained = 0;
  for (size_t i = 0; i < advantages.size(); ++i) {
    const int32_t target = batch["targets"][i];
    if (target == kIgnoredTarget) {
      EXPECT_EQ(advantages[i], 0);
    } else {
      ++trained;
      EXPECT_EQ(old[i], target == 7 ? -1 : -2);
      // Its answer's last token says which it is.
      const int32_t last = target == 7 ? batch["targets"][i + 1] : target;
      EXPECT_EQ(advantages[i], static_cast<float>(target == 7 ? last - 20 : 20 - last));
    }
  }
  EXPECT_EQ(trained, 12);
}

TEST(Rollout, StandsInCellsOfTablesAsJson) {
  TemporaryFolder folder;
  const Tokenizer tokenizer(kTokenizer);
  const std::vector<std::filesystem::path> inputs{
      folder.write("a.csv",
                   "prompt_ids,completion_ids,advantages,old_log_probs\n"
                   "\"[5, 6.0]\",\"[7, 8]\",0.5,\"[-1, -2]\"\n")};
  tokenize_files(tokenizer, inputs, folder / "a.tokens", {.kind = ExampleKind::rollout});
  const TokenFile file(folder / "a.tokens");
  std::vector<int32_t> tokens(4);
  std::vector<float> values(4);
  file.read(0, tokens);
  file.read_column("advantages", 0, 1, std::span(values));
  EXPECT_THAT(tokens, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(values, ElementsAre(0, 0, 0.5, 0.5));
}

TEST(Rollout, FilesHaveTheSameBesideTheirTokens) {
  TemporaryFolder folder;
  const Tokenizer tokenizer(kTokenizer);
  const std::string ids = R"({"prompt_ids": [5], "completion_ids": [7], "advantages": 1)";
  const std::vector<std::filesystem::path> inputs{
      folder.write("a.jsonl", ids + "}\n"),
      folder.write("b.jsonl", ids + R"(, "reference_log_probs": [-1]})" + "\n")};
  EXPECT_THAT(message_of<DataError>([&] {
                tokenize_files(tokenizer, inputs, folder / "a.tokens",
                               {.kind = ExampleKind::rollout});
              }),
              HasSubstr("b.jsonl: found advantages, old_log_probs, reference_log_probs beside "
                        "tokens, expected advantages, old_log_probs, as in "));
}

TEST(TokenColumns, AreFoundWhereTheyCannotBe) {
  TemporaryFolder folder;
  {
    TokenFileWriter writer(
        folder / "a.tokens", 1000, 0, LossMask::present, Pairing::absent,
        {{kAdvantages}, {kTeacherLogProbs, 2}, {kTeacherTokens, 2, TokenColumn::Element::int32}});
    // Of the n-th token.
    float n = 0;
    const auto append = [&](const std::vector<int32_t>& tokens) {
      writer.append(tokens);
      for (const int32_t token : tokens) {
        const std::array beside{n, -n - 1, -n - 2, std::bit_cast<float>(token),
                                std::bit_cast<float>(int32_t{-1})};
        writer.append_beside(std::as_bytes(std::span(beside)));
        ++n;
      }
    };
    append({5, 6, 7});
    append({8, 9});
    writer.finish();
  }
  const std::string whole = read_file(folder / "a.tokens");
  EXPECT_EQ(whole[8], 7);
  const TokenFile file(folder / "a.tokens");
  std::vector<float> wide(4), narrow(5);
  std::vector<int32_t> ids(5), wide_ids(4);
  file.read_column(kTeacherLogProbs, 2, 2, wide);
  EXPECT_THAT(wide, ElementsAre(-3, -4, -4, -5));
  file.read_column(kAdvantages, 0, 1, narrow);
  EXPECT_THAT(narrow, ElementsAre(0, 1, 2, 3, 4));
  file.read_column(kTeacherLogProbs, 0, 1, narrow);
  EXPECT_THAT(narrow, ElementsAre(-1, -2, -3, -4, -5));
  file.read_column(kTeacherTokens, 0, 1, ids);
  EXPECT_THAT(ids, ElementsAre(5, 6, 7, 8, 9));
  file.read_column(kTeacherTokens, 1, 2, wide_ids);
  EXPECT_THAT(wide_ids, ElementsAre(6, -1, 7, -1));
  EXPECT_THROW(file.read_column(kOldLogProbs, 0, 1, narrow), InternalError);
  EXPECT_THROW(file.read_column(kTeacherTokens, 0, 1, narrow), InternalError);
  EXPECT_THROW(file.read_column(kAdvantages, 1, 1, narrow), InternalError);
  EXPECT_THROW(file.read_column(kAdvantages, 0, 2, wide), InternalError);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_THROW(TokenFile(folder.write("b.tokens", whole.substr(0, bytes))), DataError);
  EXPECT_THROW(TokenFile(folder.write("b.tokens", whole + '\0')), DataError);
  // The columns begin behind the tokens, 5 of 2 bytes and 6 zeros, and the ends of 2 documents.
  constexpr size_t kColumns = 80 + 16 + 16;
  const auto changed = [&](size_t at, char value) {
    std::string bytes = whole;
    bytes[kColumns + at] = value;
    return message_of<DataError>([&] { TokenFile(folder.write("b.tokens", bytes)); });
  };
  EXPECT_THAT(changed(0, 9), HasSubstr("truncated or corrupt: 9 columns, expected 1 to 8"));
  EXPECT_THAT(changed(0, 0), HasSubstr("corrupt: 0 columns"));
  EXPECT_THAT(changed(8, '!'), HasSubstr("corrupt: a column is named \"!dvantages\""));
  EXPECT_THAT(changed(8 + 24, 2), HasSubstr("corrupt: column advantages has 2 values of kind 0, "
                                            "expected 1 of kind 0"));
  EXPECT_THAT(changed(8 + 28, 1), HasSubstr("corrupt: column advantages has 1 values of kind 1"));
  constexpr size_t kLogProbs = 8 + 32 + 24;  // the width
  EXPECT_THAT(changed(kLogProbs, 3), HasSubstr("corrupt: 2 teacher_tokens for 3 teacher_log_pro"));
  EXPECT_THAT(changed(kLogProbs + 2, 2), HasSubstr("column teacher_log_probs has 131074 values of "
                                                   "kind 0, expected 1 to 65536 of kind 0"));
  // Both.
  std::string bytes = whole;
  bytes[kColumns + kLogProbs + 1] = bytes[kColumns + kLogProbs + 32 + 1] = 1;
  EXPECT_THAT(message_of<DataError>([&] { TokenFile(folder.write("b.tokens", bytes)); }),
              HasSubstr("columns of 5 tokens, more than the file"));
}

// Of a file that was made by others.
TEST(TokenColumns, HaveOnlyWhatTheyMayHave) {
  TemporaryFolder folder;
  const auto refusal = [&](const std::vector<TokenColumn>& columns, auto... values) {
    TokenFileWriter writer(folder / "a.tokens", 9, 0, LossMask::absent, Pairing::absent, columns);
    writer.append(std::vector<int32_t>{1});
    const auto as_float = [](auto value) {
      if constexpr (std::is_same_v<decltype(value), int>)
        return std::bit_cast<float>(value);
      else
        return static_cast<float>(value);
    };
    const std::array beside{as_float(values)...};
    writer.append_beside(std::as_bytes(std::span(beside)));
    writer.finish();
    return message_of<DataError>([&] {
      const TokenFile file(folder / "a.tokens");
      for (const TokenColumn& column : columns) {
        std::vector<float> floats(static_cast<size_t>(column.width));
        std::vector<int32_t> ids(floats.size());
        if (column.element == TokenColumn::Element::int32)
          file.read_column(column.name, 0, column.width, ids);
        else
          file.read_column(column.name, 0, column.width, floats);
      }
      throw DataError("none");
    });
  };
  const std::vector<TokenColumn> drawn{{kAdvantages}, {kOldLogProbs}, {kReferenceLogProbs}};
  EXPECT_EQ(refusal(drawn, 1., NAN, -1.), "none");
  EXPECT_EQ(refusal(drawn, -1e30, 1e-4, 0.), "none");
  EXPECT_THAT(refusal(drawn, NAN, NAN, -1.),
              HasSubstr("a.tokens: corrupt: advantages of token 0: found nan, expected a finite "
                        "number"));
  EXPECT_THAT(refusal(drawn, 1., 0.5, -1.),
              HasSubstr("old_log_probs of token 0: found 0.500000, expected a log-probability, at "
                        "most 0"));
  EXPECT_THAT(refusal(drawn, 1., -1., NAN), HasSubstr("reference_log_probs of token 0: found nan"));
  EXPECT_THAT(refusal(drawn, 1., -INFINITY, -1.),
              HasSubstr("old_log_probs of token 0: found -inf"));
  const std::vector<TokenColumn> taught{{kTeacherTokens, 2, TokenColumn::Element::int32},
                                        {kTeacherLogProbs, 2}};
  EXPECT_EQ(refusal(taught, 8, -1, -0.7, -0.7), "none");
  EXPECT_THAT(refusal(taught, 8, 9, -0.7, -0.7),
              HasSubstr("teacher_tokens of token 0: found 9, expected -1 or an id below 9"));
  EXPECT_THAT(refusal(taught, 8, -2, -0.7, -0.7), HasSubstr("teacher_tokens of token 0: found -2"));
  EXPECT_THAT(refusal(taught, 7, 8, -0.7, -0.6),
              HasSubstr("teacher_log_probs of token 0: found probabilities that sum to 1.04"));
}

}  // namespace
}  // namespace longshore::data
