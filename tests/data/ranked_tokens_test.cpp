#include "longshore/data/tokenizers/ranked_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/data/tokenizers/tekken.h"
#include "longshore/data/tokenizers/tiktoken.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

const std::filesystem::path kTekken = "tests/goldens/tekken";

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = i; k < i + 3; ++k)
      bits = bits << 8 | (k < bytes.size() ? static_cast<uint8_t>(bytes[k]) : 0u);
    for (size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// A token a line: those of the bytes, then others, the last of them as it is given.
std::string tiktoken_file(size_t tokens, const std::string& last) {
  std::string file;
  for (size_t rank = 0; rank < tokens; ++rank) {
    std::string token(1, static_cast<char>(rank));
    if (rank >= 256) token = "q" + std::to_string(rank);
    if (rank == 256) token = " t";
    if (rank == 257) token = "th";
    if (rank == 258) token = " the";
    if (rank == 259) token = "he";
    if (rank + 1 == tokens) token = last;
    file += base64(token) + " " + std::to_string(rank) + "\n";
  }
  return file;
}

TEST(Tekken, AgreesWithTiktoken) {
  const Tokenizer tokenizer(kTekken);
  EXPECT_EQ(tokenizer.path(), kTekken / "tekken.json");
  EXPECT_EQ(tokenizer.vocab_size(), 408);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.spelling(7), "<SPECIAL_7>");
  EXPECT_FALSE(tokenizer.is_sentencepiece());
  const auto cases = Json::parse(std::ifstream(kTekken / "cases.json"));
  ASSERT_GT(cases.size(), 50u);
  for (const auto& each : cases) {
    const std::string text = each.at(0);
    const std::vector<int32_t> ids = each.at(1);
    EXPECT_EQ(tokenizer.encode(text), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
  const std::vector<int32_t> special = tokenizer.encode("[INST][THINK]");
  EXPECT_EQ(special, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(tokenizer.decode(special), "[THINK]");  // that is no control token
}

TEST(Tekken, BecomesATokenizerJson) {
  TemporaryFolder folder;
  const Tokenizer tekken(kTekken);
  const Tokenizer json(folder.write("tokenizer.json", tekken.extended_json()));
  const std::string text = "[INST] the boats\n wait 12";
  EXPECT_EQ(json.encode(text), tekken.encode(text));
  EXPECT_EQ(json.fingerprint(), tekken.fingerprint());
  const std::string added = "<|new|>";
  EXPECT_EQ(Tokenizer(kTekken, {&added, 1}).encode(added), (std::vector<int32_t>{408}));
}

TEST(Tekken, NamesThePlaceOfWhatItDoesNotTake) {
  const Json golden = Json::parse(std::ifstream(kTekken / "tekken.json"));
  struct Change {
    const char* pointer;
    Json value;
    const char* expected;
  };
  for (const Change& each : std::initializer_list<Change>{
           {"/config/pattern", "", "config/pattern: expected an expression"},
           {"/config/pattern", 5, "config/pattern: expected what a tekken.json holds, found 5"},
           {"/config/surprise", "x", "config/surprise: expected what a tekken.json holds"},
           {"/config/default_vocab_size", 429, "config/default_vocab_size: expected 8 to 428"},
           {"/config/default_vocab_size", 7, "config/default_vocab_size: expected 8 to 428"},
           {"/config/default_num_special_tokens", 4,
            "config/default_num_special_tokens: expected 5"},
           {"/config/default_vocab_size", 200, "expected a token for each byte, found none for"},
           {"/special_tokens", nullptr, "special_tokens: expected a list, as version is \"v11\""},
           {"/special_tokens/1/rank", 2, "special_tokens/1: expected rank 1"},
           {"/special_tokens/1/is_control", "x", "special_tokens/1: expected rank 1"},
           {"/vocab/3/rank", 4,
            "vocab/3: expected rank 3, token_bytes and token_str, found rank 4"},
           {"/vocab/3/token_bytes", "?", "vocab/3/token_bytes: "},
           {"/vocab/3/token_bytes", nullptr, "vocab/3: expected rank 3"},
           {"/vocab/300/token_bytes", base64("a"), "token 300: \"a\" is also token 64"},
           {"/vocab/300/token_bytes", base64(std::string(257, 'a')),
            "token 300: expected 1 to 256"},
           {"/vocab/300/token_bytes", "", "token 300: expected 1 to 256"},
           {"/vocab/3", Json::array(), "vocab/3: expected rank 3"},
           {"/surprise", 1, "surprise: expected what a tekken.json holds, found 1"}}) {
    Json file = golden;
    file[Json::json_pointer(each.pointer)] = each.value;
    const std::string message =
        message_of<DataError>([&] { tokenizer_json_of_tekken(file.dump()); });
    EXPECT_TRUE(message.starts_with(each.expected)) << each.pointer << ": " << message;
  }
  Json older = golden;
  older["special_tokens"] = nullptr;
  older["config"]["version"] = "v3";
  older["config"]["default_num_special_tokens"] = 30;
  older["config"]["default_vocab_size"] = 430;
  EXPECT_THAT(tokenizer_json_of_tekken(older.dump()), HasSubstr("[AVAILABLE_TOOLS]"));
}

TEST(Tiktoken, KnowsTheFileOfLlama3) {
  TemporaryFolder folder;
  const auto path = folder.write("tokenizer.model", tiktoken_file(128000, "\xe9\x94\xa6"));
  const Tokenizer tokenizer(path);
  EXPECT_EQ(tokenizer.vocab_size(), 128256);
  EXPECT_EQ(tokenizer.bos_id(), 128000);
  EXPECT_EQ(tokenizer.eos_id(), 128001);
  EXPECT_EQ(tokenizer.id_of("<|eot_id|>"), 128009);
  EXPECT_EQ(tokenizer.id_of("<|reserved_special_token_245|>"), 128255);
  // By rank: "th" before "he"; and " the" as a whole.
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(tokenizer.encode(" the the<|eot_id|>"), (Ids{258, 258, 128009}));
  EXPECT_EQ(tokenizer.encode("the"), (Ids{257, 'e'}));
  EXPECT_EQ(tokenizer.encode("\xe9\x94\xa6"), (Ids{127999}));
}

TEST(Tiktoken, SaysWhatItDoesNotKnow) {
  TemporaryFolder folder;
  auto message = [&](const std::string& bytes) {
    const auto path = folder.write("tiktoken.model", bytes);
    return message_of<DataError>([&] { Tokenizer tokenizer(path); });
  };
  EXPECT_THAT(
      message(tiktoken_file(300, "x1")),
      HasSubstr("found a tiktoken file of 300 tokens, which does not say how text is split; "
                "expected that of Llama 3 (128000 tokens), Llama 4 (200000 tokens), Qwen "
                "(151643 tokens), or the tokenizer.json"));
  EXPECT_THAT(message("IQ== 0\nIg== 2\n"),
              HasSubstr("line 2: expected a token in base64 and 1, found \"Ig== 2\""));
  EXPECT_THAT(message("IQ== 0\nI=== 1\n"), HasSubstr("line 2: "));
  EXPECT_THAT(message("IQ== 0\r\nIg== 1\r\nrest"), HasSubstr("line 3: expected"));
  folder.write("tokenizer.json", "{}");
  EXPECT_TRUE(message(tiktoken_file(300, "x1"))
                  .ends_with("; nearest: " + (folder / "tokenizer.json").string()));
}

}  // namespace
}  // namespace longshore::data
