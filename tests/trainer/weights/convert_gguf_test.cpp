#include "longshore/trainer/weights/convert_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/families/decoder.h"
#include "longshore/trainer/weights/gguf_metadata.h"
#include "longshore/trainer/weights/gguf_tensors.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"
#include "tests/trainer/golden.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

using data::GgufType;
using data::read_file;
using data::TemporaryFolder;
using nlohmann::json;
using testing::HasSubstr;

namespace fs = std::filesystem;

// A golden case's config, with changes, and weights.
fs::path source(const TemporaryFolder& temporary, const std::string& name,
                const json& changes = json::object()) {
  const fs::path folder = temporary / name;
  fs::create_directories(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(golden_folder(name)))
    if (entry.path().filename().string().starts_with("model"))
      fs::copy_file(entry.path(), folder / entry.path().filename(),
                    fs::copy_options::overwrite_existing);
  json config = json::parse(read_file(golden_folder(name) / "config.json"));
  config.update(changes);
  temporary.write(name + "/config.json", config.dump());
  return folder;
}

std::string refusal(const TemporaryFolder& temporary, const std::string& name,
                    const json& changes) {
  const fs::path from = source(temporary, name, changes), to = temporary / "a.gguf";
  std::string message =
      message_of<DataError>([&] { convert_to_gguf({.source = {.from = from}, .to = to}); });
  EXPECT_FALSE(fs::exists(to));
  EXPECT_EQ(std::distance(fs::directory_iterator(from.parent_path()), {}), 1);
  fs::remove_all(from);
  return message;
}

std::vector<float> counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.F);
  return values;
}

TEST(ConvertGguf, HalvesOfHeadsBecomeNeighbours) {
  // Two heads of four rows of two.
  EXPECT_EQ(turned(counted(16), 4, 2),
            (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));
  EXPECT_EQ(transposed(counted(12), 2, 3),
            (std::vector<float>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
}

TEST(ConvertGguf, TheSameModelGivesTheSameBytes) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "llama32_tied");
  for (const auto type : {GgufType::float32, GgufType::q8_0}) {
    convert_to_gguf({.source = {.from = from}, .to = temporary / "a.gguf", .type = type});
    const std::string first = read_file(temporary / "a.gguf");
    convert_to_gguf({.source = {.from = from}, .to = temporary / "a.gguf", .type = type});
    EXPECT_TRUE(first == read_file(temporary / "a.gguf"));
  }
}

TEST(ConvertGguf, RefusesModelsThatLlamaCppWouldRunOtherwise) {
  TemporaryFolder temporary;
  const std::vector<std::tuple<const char*, json, const char*>> cases = {
      {"gemma2", {{"final_logit_softcapping", nullptr}}, "final_logit_softcapping: found none"},
      {"gemma2",
       {{"sliding_window", nullptr},
        {"layer_types",
         json::array({"full_attention", "full_attention", "full_attention", "full_attention"})}},
       "sliding_window: found none"},
      {"smollm3", json::object(), "layer 2: found no RoPE, expected it in all but each 4th"},
      {"llama4_text", json::object(), "attention_chunk_size: found 8, expected 8192"},
      {"qwen3_moe", json::object(), "mlp_only_layers: found layers without experts"},
      {"qwen3_moe", {{"norm_topk_prob", false}}, "norm_topk_prob: found false"},
      {"gemma4_e2b", json::object(), "num_kv_shared_layers: found 5"},
      {"gpt_oss", {{"swiglu_limit", 6.0}}, "swiglu_limit 6"},
      {"llama31_gqa",
       {{"max_position_embeddings", nullptr}},
       "max_position_embeddings: found none"},
  };
  for (const auto& [name, changes, expected] : cases)
    EXPECT_THAT(refusal(temporary, name, changes),
                testing::AllOf(HasSubstr("config.json: is no model that llama.cpp's"),
                               HasSubstr(expected)));
}

TEST(ConvertGguf, RefusesNumbersThatFloat32CannotHold) {
  TemporaryFolder temporary;
  const auto rope = [](double base, double factor) {
    return json{{"rope_parameters",
                 {{"rope_type", "llama3"},
                  {"rope_theta", base},
                  {"factor", factor},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 64}}}};
  };
  const std::vector<std::tuple<const char*, json, const char*>> cases = {
      {"llama32_tied",
       {{"rms_norm_eps", 1e-320}},
       "rms_norm_eps: found 1e-320, expected 0, or from"},
      {"llama32_tied", {{"rms_norm_eps", 1e-40}}, "rms_norm_eps: found 1e-40"},
      {"llama32_tied", {{"rms_norm_eps", 1e300}}, "from 1.1755e-38 to 3.4028e+38"},
      {"llama31_gqa", rope(1e300, 8), "rope_theta: found 1e+300"},
      {"llama31_gqa", rope(1e4, 1e300), "rope_scaling/factor: found 1e+300"},
      {"gemma2", {{"query_pre_attn_scalar", 1e-320}}, "query_pre_attn_scalar: found 1e-320"},
  };
  for (const auto& [name, changes, expected] : cases)
    EXPECT_THAT(refusal(temporary, name, changes),
                testing::AllOf(HasSubstr((temporary / name / "config.json: ").string()),
                               HasSubstr(expected)));
}

// A model with the tokenizer of a golden folder, of which these are changed.
std::string with_tokenizer(const TemporaryFolder& temporary, const json& changes,
                           const std::string& generation = "{}") {
  const fs::path from = source(temporary, "llama32_tied");
  json tokenizer =
      json::parse(read_file("tests/goldens/tokenizers/bytelevel_bpe_gpt2/tokenizer.json"));
  tokenizer.update(changes);
  const json config = json::parse(read_file(from / "config.json"));
  temporary.write("llama32_tied/tokenizer.json", tokenizer.dump());
  temporary.write("llama32_tied/generation_config.json", generation);
  return convert_to_gguf({.source = {.from = from}, .to = temporary / "a.gguf"});
}

TEST(ConvertGguf, SaysWhichTokensAreBeyondTheVocabulary) {
  TemporaryFolder temporary;
  const auto refused = [&](const std::string& generation) {
    return message_of<DataError>([&] { with_tokenizer(temporary, json::object(), generation); });
  };
  const std::string folder = (temporary / "llama32_tied").string();
  EXPECT_EQ(refused(R"({"eos_token_id": [1, 5000]})"),
            folder +
                ": eos_token_id of generation_config.json or config.json: found one of id 5000, "
                "expected ids below the 307 of the model's vocabulary");
  EXPECT_THAT(refused(R"({"bos_token_id": 5000})"), HasSubstr(folder + ": bos_token_id of"));
  EXPECT_THAT(refused(R"({"eos_token_id": "a"})"),
              HasSubstr(folder + "/generation_config.json: eos_token_id: found"));
  const json far = {{"added_tokens", json::array({{{"id", 5000},
                                                   {"content", "<far>"},
                                                   {"special", true},
                                                   {"single_word", false},
                                                   {"lstrip", false},
                                                   {"rstrip", false},
                                                   {"normalized", false}}})}};
  EXPECT_THAT(with_tokenizer(temporary, far),
              HasSubstr("; left out 1 special token beyond the 307 of the model's vocabulary: "
                        "\"<far>\" of id 5000"));
}

TEST(ConvertGguf, ErrorsOfNumbersNameTheFolder) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "gemma2", {{"query_pre_attn_scalar", 1e-30}});
  EXPECT_EQ(
      message_of<DataError>([&] {
        convert_to_gguf(
            {.source = {.from = from}, .to = temporary / "a.gguf", .type = GgufType::float16});
      }),
      from.string() +
          ": tensor \"blk.0.attn_q.weight\": found finite F32 values beyond what F16 can "
          "hold, expected none");
  EXPECT_FALSE(fs::exists(temporary / "a.gguf"));
}

TEST(ConvertGguf, SaysOfWhichTypeASentencepieceModelIs) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "llama32_tied");
  fs::copy_file("tests/goldens/tokenizers/sp_unigram/tokenizer.model", from / "tokenizer.model");
  EXPECT_EQ(message_of<DataError>(
                [&] { convert_to_gguf({.source = {.from = from}, .to = temporary / "a.gguf"}); }),
            (from / "tokenizer.model").string() +
                ": found a sentencepiece model of type Unigram, expected BPE or char, of "
                "which alone files for llama.cpp are made");
}

TEST(ConvertGguf, WritesWhatALinkLeadsTo) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "llama32_tied"), link = temporary / "link";
  fs::create_symlink("a.gguf", link);
  for (int time = 0; time < 2; ++time) {  // there is no such file yet, and then there is
    convert_to_gguf({.source = {.from = from}, .to = link});
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_TRUE(fs::is_regular_file(temporary / "a.gguf"));
  }
}

TEST(ConvertGguf, WindowsThatLlamaCppDoesNotKnowBoundTheContext) {
  models::DecoderConfig model{.family = &models::kMistral};
  model.max_position_embeddings = 64;
  model.window = 5;
  EXPECT_EQ(gguf_context_length(model), 5);
  model.window = 0;
  EXPECT_EQ(gguf_context_length(model), 64);
  model.family = &models::kGemma3Text;
  model.window = 5;
  EXPECT_EQ(gguf_context_length(model), 64);
}

TEST(ConvertGguf, QueriesMakeUpForAScaleOfScoresThatHasNoKey) {
  models::DecoderConfig model{.family = &models::kGemma2};
  model.head_dim = 128;
  model.query_pre_attn_scalar = 128;
  EXPECT_EQ(gguf_query_factor(model), 1);
  model.query_pre_attn_scalar = 32;
  EXPECT_EQ(gguf_query_factor(model), 2);
  // Gemma 2's largest.
  model.layers = 46;
  model.width = 4608;
  model.query_heads = 32;
  model.query_pre_attn_scalar = 144;
  EXPECT_EQ(gguf_query_factor(model), 1);
  model.family = &models::kGranite;
  EXPECT_EQ(gguf_query_factor(model), 1);
}

TEST(ConvertGguf, RefusesWhatAnAdapterFileCannotHold) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "lora_llama");
  const fs::path adapter = golden_folder("lora_llama") / "adapter";
  const fs::path to = temporary / "a.gguf";
  EXPECT_THAT(message_of<ConfigError>([&] {
                convert_to_gguf({.source = {.from = from}, .to = to, .adapter_only = true});
              }),
              HasSubstr("--adapter-only: found no adapter beside"));
  for (const char* name : {"dora", "modules_to_save"})
    EXPECT_THAT(
        message_of<DataError>([&] {
          convert_to_gguf({.source = {.from = golden_folder("lora_variants") / "base",
                                      .adapter = golden_folder("lora_variants") / name / "adapter"},
                           .to = to,
                           .adapter_only = true});
        }),
        HasSubstr("has what no adapter file of llama.cpp can hold"));
  EXPECT_FALSE(fs::exists(to));
  // Of the base only config.json is read.
  for (const fs::directory_entry& entry : fs::directory_iterator(from))
    if (entry.path().filename() != "config.json") fs::remove(entry.path());
  EXPECT_THAT(convert_to_gguf(
                  {.source = {.from = from, .adapter = adapter}, .to = to, .adapter_only = true}),
              HasSubstr("F32; the adapter of"));
}

TEST(ConvertGguf, DoesNotWriteOverTheModel) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "llama32_tied");
  const std::string before = read_file(from / "model.safetensors");
  EXPECT_THROW(convert_to_gguf({.source = {.from = from}, .to = from / "model.safetensors"}),
               ConfigError);
  EXPECT_TRUE(before == read_file(from / "model.safetensors"));
}

TEST(ConvertGguf, WhatIsBeyondATypeLeavesNothing) {
  TemporaryFolder temporary;
  const fs::path from = source(temporary, "llama32_tied");
  temporary.write("llama32_tied/tokenizer.json", "{\"any\": \"bytes\xff\"}");
  const fs::path to = temporary / "a.gguf";
  EXPECT_THAT(message_of<DataError>([&] { convert_to_gguf({.source = {.from = from}, .to = to}); }),
              HasSubstr("tokenizer.json"));
  EXPECT_EQ(temporary.file_count(), 1u);
}

}  // namespace
}  // namespace longshore::trainer
