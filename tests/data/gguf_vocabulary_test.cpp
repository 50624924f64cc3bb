#include "longshore/data/gguf/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json golden(const std::string& name) {
  return json::parse(
      read_file(std::string("tests/goldens/tokenizers/") + name + "/tokenizer.json"));
}

std::map<std::string, GgufValue> entries(const json& tokenizer, int64_t size,
                                         const char* character_bpe = "llama") {
  std::map<std::string, GgufValue> values;
  for (const GgufEntry& entry :
       gguf_vocabulary(tokenizer.dump(), {.size = size, .character_bpe = character_bpe}).entries)
    values[entry.key.substr(std::string("tokenizer.ggml.").size())] = entry.value;
  return values;
}

template <class T>
T get(const std::map<std::string, GgufValue>& values, const std::string& key) {
  return std::get<T>(values.at(key));
}
using Texts = std::vector<std::string>;

std::string refusal(const json& tokenizer, int64_t size) {
  return message_of<DataError>([&] { entries(tokenizer, size); });
}

TEST(GgufVocabulary, ByteLevelBpeHasMergesAndANameForItsSplit) {
  for (const auto& [name, split] : {std::pair{"bytelevel_bpe_gpt2", "gpt-2"},
                                    {"bytelevel_bpe_llama3", "llama-bpe"},
                                    {"bytelevel_bpe_qwen", "qwen2"}}) {
    const json tokenizer = golden(name);
    const auto found = entries(tokenizer, 1000);
    EXPECT_EQ(get<std::string>(found, "model"), "gpt2");
    EXPECT_EQ(get<std::string>(found, "pre"), split);
    EXPECT_EQ(found.contains("scores"), false);
    Texts merges;
    for (const json& merge : tokenizer["model"]["merges"])
      merges.push_back(merge.is_array()
                           ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                           : merge.get<std::string>());
    EXPECT_EQ(get<Texts>(found, "merges"), merges);
    const Texts tokens = get<Texts>(found, "tokens");
    for (const auto& [token, id] : tokenizer["model"]["vocab"].items())
      EXPECT_EQ(tokens.at(id.get<size_t>()), token);
    EXPECT_EQ(get<bool>(found, "add_bos_token"), name == std::string("bytelevel_bpe_llama3"));
  }
}

TEST(GgufVocabulary, IdsWithoutATokenGetNames) {
  json tokenizer = golden("bytelevel_bpe_gpt2");
  const size_t known = entries(tokenizer, 400).at("tokens").index();
  ASSERT_EQ(known, GgufValue(Texts()).index());
  // One that has the name already.
  tokenizer["added_tokens"].push_back({{"id", 350}, {"content", "[PAD360]"}, {"special", false}});
  const auto found = entries(tokenizer, 400);
  const Texts tokens = get<Texts>(found, "tokens");
  const auto types = get<std::vector<int32_t>>(found, "token_type");
  ASSERT_EQ(tokens.size(), 400u);
  EXPECT_EQ(tokens[350], "[PAD360]");
  EXPECT_EQ(types[350], 4);
  EXPECT_EQ(tokens[359], "[PAD359]");
  EXPECT_EQ(tokens[360], "[PAD360]_");
  EXPECT_EQ(types[360], 5);
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 400u);
}

TEST(GgufVocabulary, CharactersHaveScoresInTheOrderOfTheMerges) {
  const json tokenizer = golden("llama2_bpe");
  const auto found = entries(tokenizer, 700);
  EXPECT_EQ(get<std::string>(found, "model"), "llama");
  EXPECT_TRUE(get<bool>(found, "add_space_prefix"));
  EXPECT_FALSE(found.contains("merges"));
  const Texts tokens = get<Texts>(found, "tokens");
  const auto scores = get<std::vector<float>>(found, "scores");
  const auto types = get<std::vector<int32_t>>(found, "token_type");
  std::map<std::string, float> first;
  for (const json& merge : tokenizer["model"]["merges"]) {
    std::string token = merge.is_array() ? merge[0].get<std::string>() + merge[1].get<std::string>()
                                         : merge.get<std::string>();
    std::erase(token, ' ');
    first.emplace(token, -static_cast<float>(first.size()));
  }
  for (size_t id = 0; id < tokens.size(); ++id)
    if (first.contains(tokens[id])) {
      EXPECT_EQ(scores[id], first.at(tokens[id])) << tokens[id];
    }
  const auto& vocab = tokenizer["model"]["vocab"];
  EXPECT_EQ(types.at(vocab["<unk>"].get<size_t>()), 2);
  EXPECT_EQ(types.at(vocab["</s>"].get<size_t>()), 3);
  EXPECT_EQ(types.at(vocab["<0x0A>"].get<size_t>()), 6);
  EXPECT_EQ(get<uint32_t>(found, "unknown_token_id"), vocab["<unk>"].get<uint32_t>());
}

TEST(GgufVocabulary, GemmasPutNoSpaceBeforeATextAndMayHaveMerges) {
  const json tokenizer = golden("gemma_bpe");
  const auto found = entries(tokenizer, 887);
  EXPECT_FALSE(get<bool>(found, "add_space_prefix"));
  EXPECT_TRUE(get<bool>(found, "add_bos_token"));
  EXPECT_EQ(get<std::vector<int32_t>>(found, "token_type")
                .at(tokenizer["model"]["vocab"]["\n\n"].get<size_t>()),
            4);
  const auto fourth = entries(tokenizer, 887, "gemma4");
  EXPECT_EQ(get<std::string>(fourth, "model"), "gemma4");
  EXPECT_TRUE(fourth.contains("merges") && fourth.contains("scores"));
}

TEST(GgufVocabulary, SpecialTokensBeyondTheVocabularyAreLeftOutAndOthersRefused) {
  json tokenizer = golden("bytelevel_bpe_gpt2");
  const auto size = static_cast<int64_t>(tokenizer["model"]["vocab"].size());
  tokenizer["added_tokens"].push_back({{"id", 400}, {"content", "<far>"}, {"special", true}});
  EXPECT_EQ(get<Texts>(entries(tokenizer, 400), "tokens").size(), 400u);
  const std::vector<AddedToken> left_out =
      gguf_vocabulary(tokenizer.dump(), {.size = 400}).left_out;
  ASSERT_EQ(left_out.size(), 1u);
  EXPECT_EQ(left_out[0].content, "<far>");
  EXPECT_TRUE(gguf_vocabulary(tokenizer.dump(), {.size = 401}).left_out.empty());
  // One that texts begin with.
  const json with_bos = golden("bytelevel_bpe_llama3");
  const auto ordinary = static_cast<int64_t>(with_bos["model"]["vocab"].size());
  EXPECT_THAT(refusal(with_bos, ordinary),
              HasSubstr("a token \"<|begin_of_text|>\" of id " + std::to_string(ordinary)));
  tokenizer["added_tokens"].back()["special"] = false;
  EXPECT_THAT(refusal(tokenizer, 400),
              HasSubstr("\"<far>\" of id 400, expected ids below the 400"));
  EXPECT_GT(size, 0);
}

TEST(GgufVocabulary, RefusesWhatLlamaCppWouldReadOtherwise) {
  json split = golden("bytelevel_bpe_llama3");
  split["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{L}+|\\s+";
  EXPECT_THAT(refusal(split, 1000),
              testing::AllOf(HasSubstr(R"(pre_tokenizer: found Split at "\\p{L}+|\\s+")"),
                             HasSubstr("llama-bpe, dbrx, qwen2")));
  json lower = golden("bytelevel_bpe_qwen");
  lower["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(refusal(lower, 1000), HasSubstr("normalizer: found Lowercase, which"));
  json stripped = golden("llama2_bpe");
  stripped["normalizer"]["normalizers"].push_back(
      {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  EXPECT_THAT(refusal(stripped, 1000), HasSubstr("normalizer: found Strip, which"));
  json spaces = golden("llama2_bpe");
  spaces["normalizer"] = nullptr;
  EXPECT_THAT(refusal(spaces, 1000), HasSubstr("replaces spaces"));
  json bytes = golden("llama2_bpe");
  bytes["model"]["byte_fallback"] = false;
  EXPECT_THAT(refusal(bytes, 1000), HasSubstr("byte_fallback"));
  const json unigram = {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"decoder", {{"type", "Metaspace"}, {"replacement", "\u2581"}}},
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 0},
        {"vocab", json::array({json::array({"<unk>", 0.0}), json::array({"a", -1.0})})}}}};
  EXPECT_THAT(refusal(unigram, 2), HasSubstr("found Unigram, expected BPE"));
}

}  // namespace
}  // namespace longshore::data
