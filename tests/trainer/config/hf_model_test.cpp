#include "longshore/trainer/config/hf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "longshore/base/error.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using models::Target;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs",
               kModels = fs::path(LONGSHORE_SOURCE_DIR) / "tests/goldens/models";

Config config_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return load_config_text(text, kConfigs / "test.yml", overrides, kConfigs);
}

TEST(ModelKeys, DescribeEveryShippedModel) {
  for (const auto& entry : fs::directory_iterator(kConfigs / "models")) {
    const Config shipped = config_of("model_name: " + entry.path().stem().string() + "\n");
    const models::DecoderConfig decoder = decoder_config(shipped, Target::cpu);
    Config config;
    set_model_keys(decoder, config);
    EXPECT_EQ(decoder_config(config, Target::cpu), decoder) << entry.path();
  }
}

// What trains from a folder alone is the model that its config.json describes.
TEST(ModelKeys, AreThoseOfTheWeightsWhereNoneAreGiven) {
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(kModels)) {
    const fs::path folder = entry.path();
    const bool reads_images = folder.filename().string().starts_with("paligemma");
    if (!fs::exists(folder / "config.json") || reads_images) continue;
    const Config config = config_of("load_parameters_path: " + folder.string() + "\n");
    const models::DecoderConfig here = decoder_config(config, Target::cpu);
    models::DecoderConfig published = read_hf_config(folder).decoder;
    published.batch = here.batch;
    published.length = here.length;
    published.dtype = here.dtype;
    EXPECT_EQ(here.family, published.family) << folder;
    EXPECT_EQ(with_defaults_written_out(here), with_defaults_written_out(published)) << folder;
    EXPECT_EQ(origin(config, "base_emb_dim"), (folder / "config.json").string());
    ++folders;
  }
  EXPECT_GE(folders, 10);
}

// A folder with the config.json of a golden model, in which some keys are others.
class ChangedFolder {
 public:
  ChangedFolder(const std::string& golden, const nlohmann::json& changes) {
    nlohmann::json config =
        nlohmann::json::parse(data::read_file(kModels / golden / "config.json"));
    config.update(changes);
    temporary_.write("config.json", config.dump());
  }
  std::string path() const { return (temporary_ / "").string(); }

 private:
  data::TemporaryFolder temporary_;
};

// As full_attention_period cannot say it; as it can.
TEST(ModelKeys, WindowsAreWhereLayerTypesSay) {
  const char *full = models::kFullAttention, *sliding = models::kSlidingAttention;
  for (const std::vector<std::string>& types :
       {std::vector<std::string>{sliding, sliding, full, full},
        {full, sliding, full, sliding},
        {full, sliding, sliding, sliding},
        {sliding, full, sliding, full},
        {sliding, sliding, sliding, sliding},
        {full, full, full, full}}) {
    const ChangedFolder folder("gemma2", {{"layer_types", types}});
    const Config config = config_of("load_parameters_path: " + folder.path() + "\n");
    const models::DecoderConfig decoder = decoder_config(config, Target::cpu);
    for (int layer = 0; layer < 4; ++layer)
      EXPECT_EQ(has_window(decoder, layer), types[layer] == sliding) << layer;
  }
  auto refusal = [&](const std::string& more) {
    const ChangedFolder folder("gemma2", {{"layer_types", {sliding, sliding, full, full}}});
    return message_of<ConfigError>(
        [&] { config_of("load_parameters_path: " + folder.path() + "\n" + more); });
  };
  EXPECT_THAT(refusal("base_num_decoder_layers: 2\n"), HasSubstr("layer_types"));
  EXPECT_THAT(refusal("full_attention_period: 2\n"), HasSubstr("0 with layer_types"));
  EXPECT_THAT(refusal("sliding_window_size: 0\n"), HasSubstr("none with sliding_window_size"));
  EXPECT_THAT(refusal("layer_types: [a, b, c, d]\n"),
              HasSubstr("found a, expected full_attention or sliding_attention"));
}

TEST(ModelKeys, AMistralStaysOne) {
  for (const nlohmann::json& window : {nlohmann::json(7), nlohmann::json(nullptr)}) {
    const ChangedFolder folder("mistral_window", {{"sliding_window", window}});
    const Config config = config_of("load_parameters_path: " + folder.path() + "\n");
    EXPECT_EQ(config.model.family, &models::kMistral);
    EXPECT_THAT(models::write_hf_config(decoder_config(config, Target::cpu)),
                HasSubstr("\"model_type\": \"mistral\""));
  }
}

// Also where a model is named, which may have been published with any.
TEST(ModelKeys, ThePadTokenIsThatOfTheWeights) {
  const ChangedFolder folder("llama31_gqa", {{"pad_token_id", 5}});
  const std::string start = "load_parameters_path: " + folder.path() + "\n";
  EXPECT_EQ(config_of(start).model.pad_token, 5);
  EXPECT_EQ(config_of(start + "model_name: llama3.1_8b\n").model.pad_token, 5);
  EXPECT_EQ(config_of(start + "pad_token_id: -1\n").model.pad_token, std::nullopt);
  EXPECT_EQ(config_of("model_name: llama3.1_8b\n").model.pad_token, std::nullopt);
  EXPECT_EQ(config_of("model_name: llama3.1_8b\nload_parameters_path: none\n").model.pad_token,
            std::nullopt);
  EXPECT_THAT(message_of<ConfigError>([&] { config_of(start + "pad_token_id: 100000\n"); }),
              HasSubstr("less than vocab_size"));
}

TEST(ModelKeys, KeysThatAreSetOverrideTheFoldersConfig) {
  const fs::path folder = kModels / "llama31_gqa";
  const Config config =
      config_of("load_parameters_path: " + folder.string() + "\n", {"base_num_decoder_layers=1"});
  EXPECT_EQ(config.model.layers, 1);
  EXPECT_EQ(config.model.width, read_hf_config(folder).decoder.width);
}

TEST(ModelKeys, SayWhichConfigJsonIsNoDecoders) {
  const fs::path folder = fs::path(testing::TempDir()) / "no_decoder";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "bert"})";
  try {
    config_of("load_parameters_path: " + folder.string() + "\n");
    FAIL() << "it was taken";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder / "config.json").string()));
  }
}

TEST(ModelKeys, OfARunAreInItsModel) {
  const fs::path folder = fs::path(testing::TempDir()) / "a_run";
  fs::remove_all(folder);
  fs::create_directories(folder / "model");
  const std::string refusal = folder.string() + ": found no config.json, expected a folder of ";
  EXPECT_EQ(message_of<ConfigError>([&] { read_hf_config(folder); }), refusal + "Hugging Face's");
  fs::copy_file(kModels / "llama31_gqa/config.json", folder / "model/config.json",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(message_of<ConfigError>([&] { read_hf_config(folder); }),
            refusal + "Hugging Face's; nearest: " + (folder / "model").string());
}

TEST(ModelKeys, SayWhatIsWrongWithTheFolderThatIsToBringThem) {
  const fs::path folder = fs::path(testing::TempDir()) / "some_run";
  fs::remove_all(folder);
  fs::create_directories(folder / "model");
  fs::copy_file(kModels / "llama31_gqa/config.json", folder / "model/config.json");
  auto refusal = [&](const std::string& path) {
    return message_of<ConfigError>(
        [&] { config_of("load_parameters_path: " + (folder.parent_path() / path).string()); });
  };
  EXPECT_EQ(refusal("some_rum").substr(refusal("some_rum").find("load_parameters_path")),
            "load_parameters_path: found " + (folder.parent_path() / "some_rum").string() +
                ", which is not there, expected a folder; nearest: " + folder.string());
  EXPECT_THAT(refusal("some_run"),
              HasSubstr("found no config.json, expected a folder of Hugging Face's; "
                        "nearest: " +
                        (folder / "model").string()))
      << refusal("some_run");
}

// The tokenizer is the folder's own too. Token files are checked against it.
TEST(ModelKeys, BringTheTokenizerWhereDataIsRead) {
  const fs::path folder = fs::path(testing::TempDir()) / "with_tokenizer";
  fs::create_directories(folder);
  fs::copy_file(kModels / "llama31_gqa/config.json", folder / "config.json",
                fs::copy_options::overwrite_existing);
  std::ofstream(folder / "tokenizer.json") << "{}";
  const std::string weights = "load_parameters_path: " + folder.string() + "\n";
  EXPECT_EQ(config_of(weights).tokenizer_path, "");
  EXPECT_EQ(
      config_of(weights + "dataset_type: documents\ndataset_path: chat.jsonl\n").tokenizer_path,
      folder);
  const std::string tokens = weights + "dataset_type: tokens\ndataset_path: a.tokens\n";
  EXPECT_EQ(config_of(tokens).tokenizer_path, folder);
  for (const char* given : {"/elsewhere", ""})
    EXPECT_EQ(config_of(tokens, {std::string("tokenizer_path=") + given}).tokenizer_path, given);
}

}  // namespace
}  // namespace longshore::trainer
