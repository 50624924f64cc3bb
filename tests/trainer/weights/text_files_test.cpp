#include "longshore/trainer/weights/text_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/data/text/chat_template.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

using data::TemporaryFolder;
using nlohmann::json;
using testing::HasSubstr;

namespace fs = std::filesystem;

const fs::path kTokenizers = fs::path(LONGSHORE_SOURCE_DIR) / "tests/goldens/tokenizers";

json parsed(const ModelFiles& files, const std::string& name) {
  const std::string* text = files.find(name);
  return text ? json::parse(*text) : json();
}

ModelFiles files_of(const std::string& config, const fs::path& tokenizer) {
  ModelFiles files = read_model_files("", tokenizer);
  files.config = config;
  return files;
}

TEST(TextFiles, ANewModelHasTheEndsOfItsTokenizer) {
  const data::Tokenizer tokenizer(kTokenizers / "bytelevel_bpe_llama3");
  for (const auto& [chat_template, eos] :
       {std::pair<std::optional<data::ChatTemplate>, json>{std::nullopt, 704},
        {data::ChatTemplate::named("llama3"), {704, 707}}}) {
    ModelFiles files = files_of("{}", tokenizer.path());
    add_text_files(tokenizer, chat_template, TextEnds::of_tokenizer, files);
    const json config = json::parse(files.config),
               generation = parsed(files, "generation_config.json");
    for (const json& each : {config, generation}) {
      EXPECT_EQ(each.at("bos_token_id"), 703);
      EXPECT_EQ(each.at("eos_token_id"), eos);
    }
    EXPECT_EQ(parsed(files, "tokenizer_config.json"),
              (json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"bos_token", "<|begin_of_text|>"},
                    {"eos_token", "<|end_of_text|>"},
                    {"clean_up_tokenization_spaces", false}}));
    EXPECT_EQ(files.find("chat_template.jinja") != nullptr, chat_template.has_value());
  }
}

TEST(TextFiles, AModelsEndsStayAndTheEndOfTurnIsAddedOnce) {
  const data::Tokenizer tokenizer(kTokenizers / "bytelevel_bpe_qwen");
  const int32_t end = *tokenizer.id_of("<|im_end|>");
  ModelFiles files = files_of(R"({"bos_token_id": 7, "eos_token_id": 8})", tokenizer.path());
  files.set("generation_config.json", R"({"eos_token_id": [8, 9], "top_p": 0.5})");
  files.set("tokenizer_config.json",
            R"({"tokenizer_class": "Qwen2Tokenizer", "chat_template": "another"})");
  ModelFiles plain = files;
  add_text_files(tokenizer, std::nullopt, TextEnds::of_model, plain);
  EXPECT_EQ(plain.config, files.config);
  EXPECT_EQ(*plain.find("generation_config.json"), *files.find("generation_config.json"));
  EXPECT_EQ(*plain.find("tokenizer_config.json"), *files.find("tokenizer_config.json"));
  for (int time = 0; time < 2; ++time) {
    add_text_files(tokenizer, data::ChatTemplate::named("chatml"), TextEnds::of_model, files);
    EXPECT_EQ(json::parse(files.config), (json{{"bos_token_id", 7}, {"eos_token_id", {8, end}}}));
    EXPECT_EQ(parsed(files, "generation_config.json"),
              (json{{"eos_token_id", {8, 9, end}}, {"top_p", 0.5}}));
    EXPECT_EQ(parsed(files, "tokenizer_config.json"),
              (json{{"tokenizer_class", "Qwen2Tokenizer"}}));
    EXPECT_EQ(*files.find("chat_template.jinja"), data::ChatTemplate::named("chatml").source());
  }
}

// As in all files of tokenizers of which none knows a longest text, and in a few by an accident.
TEST(TextFiles, NumbersBeyondFloat64StayAsTheyAreWhereNothingReadsThem) {
  const data::Tokenizer tokenizer(kTokenizers / "bytelevel_bpe_qwen");
  const std::string numbers = "\n  \"a\": 1e999,\n  \"b\": [\n    -1e999,\n    " +
                              std::string(400, '9') +
                              "\n  ],\n  \"model_max_length\": 1000000000000000019884624838656";
  ModelFiles files = files_of("{" + numbers + "}", tokenizer.path());
  for (const char* name : {"generation_config.json", "tokenizer_config.json"})
    files.set(name, "{" + numbers + "}");
  add_text_files(tokenizer, data::ChatTemplate::named("chatml"), TextEnds::of_model, files);
  for (const std::string& text : {files.config, *files.find("generation_config.json"),
                                  *files.find("tokenizer_config.json")}) {
    EXPECT_TRUE(text.starts_with("{" + numbers + ",")) << text;
    EXPECT_NE(text, "{" + numbers + "}");
  }
}

TEST(TextFiles, FilesOfManyKeysAreNoBurden) {
  const data::Tokenizer tokenizer(kTokenizers / "bytelevel_bpe_qwen");
  std::string many = "{\"eos_token_id\": 8";
  for (int i = 0; i < 60000; ++i) many += ", \"key" + std::to_string(i) + "\": 1";
  many += "}";
  ModelFiles files = files_of(many, tokenizer.path());
  for (const char* name : {"generation_config.json", "tokenizer_config.json"})
    files.set(name, many);
  add_text_files(tokenizer, data::ChatTemplate::named("chatml"), TextEnds::of_model, files);
  EXPECT_EQ(parsed(files, "generation_config.json").size(), 60001u);
}

// Classes of Hugging Face's would make a tokenizer.json of their own from it.
TEST(TextFiles, ASentencepieceModelIsReadByTheTokenizerJsonThatIsMadeFromIt) {
  TemporaryFolder folder;
  const std::string bytes = data::read_file(kTokenizers / "sp_bpe" / "tokenizer.model");
  const fs::path path = folder.write("spm.model", bytes);
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "LlamaTokenizer", "legacy": true, "model_max_length": 77})");
  const data::Tokenizer tokenizer(path);
  ModelFiles files = files_of("{}", path);
  add_text_files(tokenizer, std::nullopt, TextEnds::of_tokenizer, files);
  EXPECT_EQ(*files.find("tokenizer.model"), bytes);
  EXPECT_EQ(parsed(files, "tokenizer_config.json"),
            (json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                  {"sentencepiece_model", "tokenizer.model"},
                  {"model_max_length", 77},
                  {"bos_token", "<s>"},
                  {"eos_token", "</s>"},
                  {"clean_up_tokenization_spaces", false}}));
  TemporaryFolder written;
  for (const SmallFile& file : files.others) written.write(file.name, file.text);
  const data::Tokenizer again(written / "");
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(data::Tokenizer(written / "tokenizer.json").encode("The ship is  in port.\n"),
            tokenizer.encode("The ship is  in port.\n"));
}

TEST(TextFiles, AllEndsOfBothFilesAreFound) {
  TemporaryFolder folder;
  EXPECT_TRUE(eos_ids(folder / "").empty());
  folder.write("config.json", R"({"eos_token_id": 4})");
  EXPECT_EQ(eos_ids(folder / ""), std::vector{4});
  folder.write("generation_config.json", R"({"eos_token_id": [7, 4, 9]})");
  EXPECT_EQ(eos_ids(folder / ""), (std::vector{7, 4, 9}));
  // As many as a file may have: a list is not gone through for each of its ids.
  std::string many = "0";
  for (int id = 1; id < 200'000; ++id) many += "," + std::to_string(id);
  folder.write("generation_config.json", "{\"eos_token_id\": [" + many + "]}");
  EXPECT_EQ(eos_ids(folder / "").size(), 200'000u);
  for (const char* wrong : {R"({"eos_token_id": "</s>"})", R"({"eos_token_id": [1.5]})",
                            R"({"eos_token_id": 99999999999})", R"({"eos_token_id": [1, 1e999]})",
                            R"({"eos_token_id": -1e999})", "[]", "{"}) {
    folder.write("generation_config.json", wrong);
    const std::string message = message_of<DataError>([&] { eos_ids(folder / ""); });
    EXPECT_TRUE(message.starts_with((folder / "generation_config.json: ").string())) << message;
  }
}

}  // namespace
}  // namespace longshore::trainer
