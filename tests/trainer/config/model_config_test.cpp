#include "longshore/trainer/config/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <tuple>

#include "longshore/base/error.h"
#include "longshore/models/hf/config.h"
#include "longshore/models/hf/text_model.h"
#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using models::Target;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";

Config with_model(const std::string& name, std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), "dtype=auto");
  return load_config_text("model_name: " + name + "\n", kConfigs / "test.yml", overrides, kConfigs);
}

// Each file of configs/models begins with "# NAME: N parameters.", N as published.
TEST(ModelConfigs, HaveTheirPublishedParameters) {
  const std::regex first_line(R"(# .+: ([\d,]+) parameters(\.|; with images, .+))");
  int models = 0;
  for (const auto& entry : fs::directory_iterator(kConfigs / "models")) {
    std::string line;
    std::ifstream file(entry.path());
    std::getline(file, line);
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, first_line)) << entry.path();
    std::string digits = match[1];
    std::erase(digits, ',');
    models::Model model = make_model(with_model(entry.path().stem()), Target::cpu);
    EXPECT_EQ(count_parameters(model).all, std::stoll(digits)) << entry.path();
    ++models;
  }
  EXPECT_GE(models, 58);
}

TEST(ModelConfigs, HaveTheirPublishedParametersWithImages) {
  // Of PaliGemma as KerasHub counts them, whose tables lack the 64 rows that Hugging Face's folders
  // have more; of Gemma 3 as those folders' weights are.
  constexpr int64_t kMoreRows = 64;
  for (const auto& [name, parameters, width] :
       std::vector<std::tuple<std::string, int64_t, int64_t>>{
           {"paligemma_3b_224", 2923335408, 2048},
           {"paligemma_3b_448", 2924220144, 2048},
           {"paligemma_3b_896", 2927759088, 2048},
           {"paligemma2_3b_224", 3032094960, 2304},
           {"paligemma2_10b_224", 9662409456, 3584},
           {"paligemma2_28b_224", 27650192112, 4608},
           {"gemma3_4b", 4300079472, 0},
           {"gemma3_12b", 12187325040, 0},
           {"gemma3_27b", 27432406640, 0}}) {
    const models::Model model = make_model(with_model(name, {"use_multimodal=true"}), Target::cpu);
    EXPECT_EQ(count_parameters(model).all, parameters + kMoreRows * width) << name;
  }
}

// What is trained from a file of configs/models can be published.
TEST(ModelConfigs, HaveAConfigJson) {
  for (const auto& entry : fs::directory_iterator(kConfigs / "models")) {
    const models::DecoderConfig decoder =
        decoder_config(with_model(entry.path().stem()), Target::cpu);
    const models::DecoderConfig read = models::parse_hf_config(
        models::write_hf_config(decoder), models::UnknownKeys::refuse, models::Images::read);
    EXPECT_EQ(read.vision.has_value(), decoder.vision.has_value()) << entry.path();
    if (read.vision) {
      EXPECT_EQ(*read.vision, *decoder.vision) << entry.path();
    }
    EXPECT_EQ(count_parameters(models::decoder(read)).all,
              count_parameters(models::decoder(decoder)).all)
        << entry.path();
    EXPECT_EQ(read.family, decoder.family) << entry.path();
    for (int64_t layer = 0; layer < read.layers; ++layer)
      EXPECT_EQ(has_window(read, layer), has_window(decoder, layer)) << entry.path();
    EXPECT_EQ(read.rope_scaling, decoder.rope_scaling) << entry.path();
  }
}

// Published Gemma 3 configs say of their text models what is not so by default.
TEST(ModelConfigs, AreThoseOfPublishedModelsWithImages) {
  for (const auto& [name, said] : std::vector<std::pair<std::string, std::string>>{
           {"gemma3_4b", R"("hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":34)"},
           {"gemma3_12b", R"("hidden_size":3840,"intermediate_size":15360,"num_hidden_layers":48,)"
                          R"("num_attention_heads":16,"num_key_value_heads":8)"},
           {"gemma3_27b", R"("hidden_size":5376,"intermediate_size":21504,"num_hidden_layers":62,)"
                          R"("num_attention_heads":32,"num_key_value_heads":16,"head_dim":128,)"
                          R"("query_pre_attn_scalar":168)"}}) {
    const std::string text =
        R"({"model_type":"gemma3","torch_dtype":"bfloat16","vision_config":{},"text_config":{)" +
        said + R"(,"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024}})";
    models::DecoderConfig published = models::parse_hf_config(models::text_model_config(text));
    const models::DecoderConfig here = decoder_config(with_model(name), Target::cuda);
    published.length = here.length;
    published.batch = here.batch;
    published.pad_token = here.pad_token;  // which the folder brings
    EXPECT_EQ(with_defaults_written_out(published), with_defaults_written_out(here)) << name;
  }
}

// Labels stand at the same points in all of them.
TEST(ModelConfigs, TakeEveryPolicy) {
  for (const char* name : {"llama3.1_8b", "mistral_7b", "qwen2.5_7b", "qwen3_8b", "gemma_2b",
                           "gemma2_9b", "gemma3_1b", "paligemma2_3b_224"}) {
    models::Model model = make_model(with_model(name), Target::cpu);
    for (const models::Stage& stage : model.stages)
      for (const models::Program& layer : stage.programs)
        for (const offload::PolicyInfo& policy : offload::policies())
          if (stage.is_scan()) {
            EXPECT_NO_THROW(offload::make_policy(policy.name, {}, layer))
                << name << " " << policy.name;
          }
  }
}

TEST(ModelConfigs, LayersHaveTheirWindows) {
  auto kinds = [](const char* name) { return make_model(with_model(name), Target::cpu).stages[1]; };
  models::Stage gemma2 = kinds("gemma2_2b"), gemma3 = kinds("gemma3_1b");
  ASSERT_EQ(gemma2.programs.size(), 2u);
  EXPECT_EQ(gemma2.program(0).name, "window_layer");
  EXPECT_EQ(gemma2.program(1).name, "decoder_layer");
  for (int layer = 0; layer < std::ssize(gemma3.layers); ++layer)
    EXPECT_EQ(gemma3.program(layer).name, layer % 6 == 5 ? "decoder_layer" : "window_layer");
  EXPECT_EQ(kinds("mistral_7b").programs.size(), 1u);
  EXPECT_EQ(kinds("mistral_7b").programs[0].name, "window_layer");
}

// cuDNN has no soft-caps and no heads of more than 128; flash attention no windows.
TEST(ModelConfigs, ChooseAPathForAttention) {
  auto paths = [](const std::string& model, Target target) {
    return kernel_paths(make_model(with_model(model), target), target);
  };
  const std::vector<std::string> fused{"attention: fused attention (cuDNN)"},
      flash{"attention: flash attention (ATen)"},
      tiles{"attention: tiles of ATen's matrix products"},
      own{"attention: tiles of oneDNN's matrix products"};
  EXPECT_EQ(paths("llama3_8b", Target::cuda), fused);
  EXPECT_EQ(paths("llama3_8b", Target::cuda_composed), flash);
  EXPECT_EQ(paths("mistral_7b", Target::cuda), fused);
  EXPECT_EQ(paths("mistral_7b", Target::cuda_composed), flash);
  EXPECT_EQ(paths("gemma2_9b", Target::cuda),
            std::vector{fused[0] + " on Hopper, elsewhere blocks of cuBLASLt's matrix products"});
  EXPECT_EQ(paths("gemma2_9b", Target::cuda_composed), tiles);
  EXPECT_EQ(paths("gemma3_12b", Target::cuda),
            std::vector{fused[0] + " on Hopper, elsewhere flash attention (ATen)"});
  EXPECT_EQ(paths("gemma2_9b", Target::cpu), own);
}

TEST(ModelConfigs, ContradictionsAreRefused) {
  EXPECT_THROW(with_model("llama3.1_8b", {"rope_low_freq_factor=5"}), ConfigError);
  EXPECT_THROW(with_model("llama3.1_8b", {"full_attention_period=2"}), ConfigError);
}

std::string refusal(const std::string& text) {
  try {
    models::parse_hf_config(text);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(HfConfig, WhatWouldChangeResultsIsRefused) {
  auto config = [](const std::string& more) {
    return R"({"model_type":"llama","vocab_size":10,"hidden_size":8,"num_hidden_layers":1,)"
           R"("num_attention_heads":2,"intermediate_size":12,"rms_norm_eps":1e-5)" +
           more + "}";
  };
  EXPECT_EQ(refusal(config("")), "");
  EXPECT_EQ(refusal(config(R"(,"bos_token_id":1,"use_cache":true)")), "");
  for (const auto& [more, mentioned] : std::vector<std::pair<std::string, std::string>>{
           {R"(,"quantization_config":{})", "quantization_config"},
           {R"(,"attention_dropout":0.1)", "attention_dropout"},
           {R"(,"hidden_act":"relu")", "hidden_act"},
           {R"(,"num_key_value_heads":3)", "num_key_value_heads"},
           {R"(,"head_dim":3)", "head_dim"},
           {R"(,"rope_scaling":{"type":"longrope","factor":2})", "rope_scaling.type"},
           {R"(,"rope_scaling":{"rope_type":"dynamic","factor":2})", "rope_scaling.rope_type"},
           {R"(,"rope_scaling":{"rope_type":"yarn"})", "rope_scaling.factor"},
           {R"(,"rope_scaling":{"rope_type":"yarn","factor":2})",
            "rope_scaling.original_max_position_embeddings"},
           {R"(,"max_position_embeddings":64,"rope_scaling":{"type":"yarn","factor":2,)"
            R"("beta_fast":1})",
            "rope_scaling.beta_slow"},
           {R"(,"rope_scaling":{"rope_type":"linear"})", "rope_scaling.factor"},
           {R"(,"rope_parameters":{"rope_theta":1,"partial_rotary_factor":0.5})",
            "rope_parameters.partial_rotary_factor"},
           {R"(,"vocab_size":-1)", "vocab_size"},
           {R"(,"torch_dtype":"int8")", "torch_dtype"}}) {
    EXPECT_THAT(refusal(config(more)), HasSubstr(mentioned)) << more;
  }
  EXPECT_THAT(refusal(R"({"model_type":"gpt2"})"), HasSubstr("model_type"));
  EXPECT_NE(refusal("[]"), "");
  EXPECT_NE(refusal("{"), "");
  EXPECT_NE(refusal(std::string(100000, '[')), "");
}

}  // namespace
}  // namespace longshore::trainer
