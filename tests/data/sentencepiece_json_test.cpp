#include "longshore/data/tokenizers/sentencepiece_json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "longshore/data/tokenizers/tokenizer.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

const std::filesystem::path kGoldens = "tests/goldens/tokenizers";

std::string made_from(const std::string& name, const std::vector<std::string>& chat_tokens = {}) {
  return tokenizer_json_of_sentencepiece(read_file(kGoldens / name / "tokenizer.model"),
                                         chat_tokens);
}

// tests/transformers asks the same of AutoTokenizer, also of a unigram model.
TEST(SentencepieceJson, GivesTheIdsOfSentencepiece) {
  for (const char* name : {"sp_bpe", "sp_bpe_gemma"}) {
    TemporaryFolder folder;
    const Tokenizer json(folder.write("tokenizer.json", made_from(name)));
    const Tokenizer model(kGoldens / name / "tokenizer.model");
    ASSERT_EQ(json.vocab_size(), model.vocab_size());
    EXPECT_EQ(json.bos_id(), model.bos_id());
    const auto file = nlohmann::json::parse(std::ifstream(kGoldens / name / "cases.json"));
    int compared = 0;
    for (const auto& each : file.at("cases")) {
      const std::string text = each.at("text");
      const auto ids = each.at("ids").get<std::vector<int32_t>>();
      bool is_control_spelled = false;
      for (const char* control : {"<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>"})
        is_control_spelled |= text.find(control) != text.npos;
      if (is_control_spelled) continue;
      EXPECT_EQ(json.encode(text), ids) << name << ": " << text;
      EXPECT_EQ(json.decode(ids, SpecialTokens::keep), each.at("decoded")) << name << ": " << text;
      ++compared;
    }
    EXPECT_GT(compared, 200);
  }
}

TEST(SentencepieceJson, HasTheSettingsOfAUnigramModel) {
  const auto json = nlohmann::json::parse(made_from("sp_unigram"));
  EXPECT_EQ(json.at("model").at("type"), "Unigram");
  EXPECT_EQ(json.at("model").at("unk_id"), 0);
  EXPECT_EQ(json.at("model").at("vocab").size(), 786u);
  std::vector<std::string> steps;
  for (const auto& step : json.at("normalizer").at("normalizers")) steps.push_back(step.at("type"));
  EXPECT_EQ(steps, (std::vector<std::string>{"Replace", "Precompiled", "Replace", "Replace",
                                             "Replace", "Prepend"}));
  EXPECT_EQ(json.at("post_processor").at("special_tokens").at("<s>").at("ids"),
            nlohmann::json::array({1}));
}

// What follows a marker of turns begins anew, as what follows a control token.
TEST(SentencepieceJson, MarkersOfAConversationStandBetweenTexts) {
  auto added = [](const std::string& text, const std::string& token) {
    const auto json = nlohmann::json::parse(text);
    for (const auto& each : json.at("added_tokens"))
      if (each.at("content") == token) return each;
    return nlohmann::json();
  };
  const Tokenizer model(kGoldens / "sp_bpe_gemma" / "tokenizer.model");
  const std::string user_defined = "<end_of_turn>";
  ASSERT_TRUE(model.id_of(user_defined));
  EXPECT_EQ(added(made_from("sp_bpe_gemma"), user_defined).at("normalized"), true);
  const auto marker = added(made_from("sp_bpe_gemma", {user_defined}), user_defined);
  EXPECT_EQ(marker.at("normalized"), false);
  EXPECT_EQ(marker.at("special"), true);
}

}  // namespace
}  // namespace longshore::data
