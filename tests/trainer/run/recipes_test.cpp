// Recipes for fine-tuning, each trained for real on a small model of its family, from a Hugging
// Face folder to one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/policy_plan.h"
#include "tests/data/temporary_folder.h"
#include "tests/trainer/run/colored_squares.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using offload::MemoryKind;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";

struct Recipe {
  const char* name;
  const char* tokenizer;                       // of tests/goldens/tokenizers
  const char* result;                          // what is in the run's folder at the end
  std::vector<std::string> image_tokens = {};  // of a model that reads images
};

void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

class Recipes : public testing::TestWithParam<Recipe> {};

std::string small(const Config& recipe) {
  std::string keys =
      " base_emb_dim=64 base_num_decoder_layers=3 base_num_query_heads=4 base_num_kv_heads=2 "
      "head_dim=16 base_mlp_dim=96 vocab_size=1024 per_device_batch_size=2 "
      "backend=cpu dtype=float32 weight_dtype=float32 peak_tflops_per_device=1 ";
  if (recipe.use_multimodal)
    return std::string(kSmallImageModel) +
           "max_target_length=96 per_device_batch_size=2 gradient_accumulation_steps=2 backend=cpu "
           "dtype=float32 peak_tflops_per_device=1 use_multimodal=true mm_tokens_per_image=4 "
           "image_token_id=887 ";
  keys += recipe.objective == Objective::sft ? "max_target_length=64 " : "max_target_length=192 ";
  if (recipe.model.window > 0) keys += "sliding_window_size=32 ";
  if (recipe.model.query_pre_attn_scalar) keys += "query_pre_attn_scalar=16 ";
  if (recipe.model.experts > 0) keys += "num_experts=3 num_experts_per_tok=2 ";
  if (recipe.model.expert_width > 0) keys += "base_moe_mlp_dim=32 ";
  if (recipe.model.global_head_dim)
    keys += "global_head_dim=32 global_num_kv_heads=1 full_attention_period=2 ";
  if (recipe.rope_type == RopeType::yarn) keys += "rope_original_max_position_embeddings=32 ";
  if (recipe.model.pad_token.value_or(-1) >= 1024) keys += "pad_token_id=-1 ";
  return keys;
}

std::string some_text(bool is_jsonl) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    std::string ship = "ship " + std::to_string(i * 37 % 101) + " carries " + std::to_string(i);
    text += is_jsonl ? R"({"messages": [{"role": "user", "content": "Which )" + ship +
                           R"(?"}, {"role": "assistant", "content": "The )" + ship + "\"}]}\n"
                     : "The " + ship + " tons of grain to the harbour.\n\n";
  }
  return text;
}

std::string some_pairs() {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    const std::string ship = std::to_string(i * 37 % 101);
    text += R"({"prompt": [{"role": "user", "content": "Ship )" + ship +
            R"(?"}], "chosen": [{"role": "assistant", "content": "It is )" + ship +
            R"(."}], "rejected": [{"role": "assistant", "content": "No."}]})" + "\n";
  }
  return text;
}

// Of what a recipe's file says of a line.
std::string some_pictures(const Config& recipe) {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    const std::string image = "train/" + std::to_string(i) + ".png";
    if (recipe.chat_template == "auto")
      text += R"({"image": ")" + image + R"(", "prefix": "which color?", "suffix": "red"})";
    else
      text += R"({"image": ")" + image +
              R"(", "messages": [{"role": "user", "content": [{"type": "image"}, )"
              R"({"type": "text", "text": "Which color?"}]}, )"
              R"({"role": "assistant", "content": "Red."}]})";
    text += "\n";
  }
  return text;
}

fs::path data_of(const Config& recipe, const data::TemporaryFolder& folder) {
  if (recipe.use_multimodal) {
    colored_squares(folder / "train", 12, 1);
    return folder.write("images.jsonl", some_pictures(recipe));
  }
  if (recipe.objective != Objective::sft) return folder.write("pairs.jsonl", some_pairs());
  const bool is_jsonl = recipe.dataset_path[0].path.extension() == ".jsonl";
  return folder.write(is_jsonl ? "chat.jsonl" : "text.txt", some_text(is_jsonl));
}

TEST_P(Recipes, TrainFromAFolderToAFolder) {
  const Recipe& recipe = GetParam();
  const std::string file = std::string(recipe.name) + ".yml";
  const Config config = load_config(file, {}, kConfigs);
  data::TemporaryFolder folder;
  const fs::path text = data_of(config, folder);
  const fs::path tokenizer =
      config.use_multimodal
          ? image_tokenizer(folder / "tokenizer", recipe.image_tokens, 887)
          : fs::path(LONGSHORE_SOURCE_DIR) / "tests/goldens/tokenizers" / recipe.tokenizer;
  const std::string common = small(config) + "base_output_directory=" + (folder / "").string();

  ProgramResult standin =
      run_program(TRAIN_PROGRAM " --config llama3_8b.yml model_name=" + config.model_name + common +
                  " run_name=standin steps=1");
  ASSERT_EQ(standin.exit_code, 0) << standin.output;
  ProgramResult result =
      run_program(TRAIN_PROGRAM " --config " + file + common +
                  " run_name=run steps=2 offload_layers=" + (config.offload_layers ? "2" : "-1") +
                  " load_parameters_path=" + (folder / "standin/model").string() +
                  " tokenizer_path=" + tokenizer.string() + " dataset_path=" + text.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_TRUE(fs::is_directory(folder / "run" / recipe.result)) << result.output;
  const char* other = recipe.result == std::string("model") ? "adapter" : "model";
  EXPECT_FALSE(fs::exists(folder / "run" / other));

  std::istringstream lines(data::read_file(folder / "run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json step = nlohmann::json::parse(line);
    if (step.contains("validation_loss")) continue;
    EXPECT_TRUE(std::isfinite(step["loss"].get<double>())) << line;
    EXPECT_GT(step["grad_norm"].get<double>(), 0) << line;
    EXPECT_GT(step["total_weights"].get<int>(), 0) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Recipes,
    testing::Values(Recipe{"llama3_8b_finetune", "bytelevel_bpe_llama3", "model"},
                    Recipe{"llama3_8b_lora", "bytelevel_bpe_llama3", "adapter"},
                    Recipe{"llama3_8b_24gb", "bytelevel_bpe_llama3", "model"},
                    Recipe{"llama3_8b_dpo", "bytelevel_bpe_llama3", "model"},
                    Recipe{"llama3_8b_dpo_lora", "bytelevel_bpe_llama3", "adapter"},
                    Recipe{"gemma2_9b_orpo", "gemma_bpe", "model"},
                    Recipe{"llama3_8b_qlora_8gb", "bytelevel_bpe_llama3", "adapter"},
                    Recipe{"llama3.3_70b_qlora_24gb", "bytelevel_bpe_llama3", "adapter"},
                    Recipe{"qwen3_32b_qlora_24gb", "bytelevel_bpe_qwen", "adapter"},
                    Recipe{"gemma3_27b_qlora_24gb", "gemma_bpe", "adapter"},
                    Recipe{"gpt_oss_20b_qlora_16gb", "bytelevel_bpe_llama3", "adapter"},
                    Recipe{"qwen3_30b_a3b_qlora_24gb", "bytelevel_bpe_qwen", "adapter"},
                    Recipe{"qwen3_30b_a3b_qlora_8gb", "bytelevel_bpe_qwen", "adapter"},
                    Recipe{"gemma2_9b_finetune", "gemma_bpe", "model"},
                    Recipe{"gemma2_9b_lora", "gemma_bpe", "adapter"},
                    Recipe{"gemma2_9b_attention", "gemma_bpe", "model"},
                    Recipe{"qwen3_30b_a3b_finetune", "bytelevel_bpe_qwen", "model"},
                    Recipe{"qwen3_30b_a3b_lora", "bytelevel_bpe_qwen", "adapter"},
                    Recipe{"gpt_oss_20b_lora", "bytelevel_bpe_llama3", "adapter"},
                    Recipe{"gemma4_26b_a4b_lora", "gemma_bpe", "adapter"},
                    Recipe{"llama2_7b_continued", "llama2_bpe", "model"},
                    Recipe{"llama2_13b_continued", "llama2_bpe", "model"},
                    Recipe{"paligemma2_3b", "gemma_bpe", "model", {"<image>"}},
                    Recipe{"paligemma2_3b_lora", "gemma_bpe", "adapter", {"<image>"}},
                    Recipe{"paligemma2_10b", "gemma_bpe", "model", {"<image>"}},
                    Recipe{"paligemma2_10b_lora", "gemma_bpe", "adapter", {"<image>"}},
                    Recipe{"paligemma2_28b", "gemma_bpe", "model", {"<image>"}},
                    Recipe{"paligemma2_28b_lora", "gemma_bpe", "adapter", {"<image>"}},
                    Recipe{"gemma3_4b_vision_lora",
                           "gemma_bpe",
                           "adapter",
                           {"<image_soft_token>", "<start_of_image>", "<end_of_image>"}}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::ranges::replace(name, '.', '_');
      return name;
    });

TEST(Recipe, MixturesFitACardOf80GB) {
  for (const char* file : {"qwen3_30b_a3b_lora.yml", "qwen3_30b_a3b_finetune.yml",
                           "gpt_oss_20b_lora.yml", "gemma4_26b_a4b_lora.yml"}) {
    Config config = load_config(file, {}, kConfigs);
    config.hardware = (kConfigs / "hardware/h100.yml").string();
    const PolicyPlan plan = plan_chosen_policy({config, models::Target::cuda});
    EXPECT_TRUE(plan.room.fits()) << file << "\n" << fits_text(plan.room);
  }
}

TEST(Recipe, Llama8BFitsACardOf24GB) {
  Config config = load_config("llama3_8b_24gb.yml", {}, kConfigs);
  config.hardware = (kConfigs / "hardware/rtx4090.yml").string();
  PolicyPlan plan = plan_chosen_policy({config, models::Target::cuda});
  constexpr int64_t kGibibyte = int64_t{1} << 30;
  EXPECT_LE(plan.memory[MemoryKind::device].peak_bytes, 22 * kGibibyte);
  EXPECT_LE(plan.memory[MemoryKind::pinned_host].peak_bytes, 60 * kGibibyte);
  EXPECT_TRUE(plan.room.fits()) << fits_text(plan.room);
}

// Little is waited for where a base in four bits is streamed.
TEST(Recipe, QuantizedBasesFitSmallCards) {
  struct Case {
    const char* file;
    double device_gib, host_gib, waited;
  };
  for (const auto& [file, device_gib, host_gib, waited] :
       {Case{"llama3.3_70b_qlora_24gb.yml", 22, 60, 0.15},
        {"llama3_8b_qlora_8gb.yml", 7.5, 14, 0.15},
        {"qwen3_32b_qlora_24gb.yml", 23, 60, 0.05},
        {"gemma3_27b_qlora_24gb.yml", 23, 60, 0.05},
        {"gpt_oss_20b_qlora_16gb.yml", 14.5, 60, 0.1},
        {"qwen3_30b_a3b_qlora_24gb.yml", 23, 60, 0.05},
        {"qwen3_30b_a3b_qlora_8gb.yml", 7.5, 60, 0.15}}) {
    Config config = load_config(file, {}, kConfigs);
    config.hardware = (kConfigs / "hardware/rtx4090.yml").string();
    const PolicyPlan plan = plan_chosen_policy({config, models::Target::cuda});
    EXPECT_LE(plan.memory[MemoryKind::device].peak_bytes, device_gib * 0x1p30) << file;
    EXPECT_LE(plan.memory[MemoryKind::pinned_host].peak_bytes, host_gib * 0x1p30) << file;
    EXPECT_TRUE(plan.room.fits()) << file << "\n" << fits_text(plan.room);
    EXPECT_LE(plan.estimate->phases.exposed_transfer, waited * plan.estimate->step_seconds) << file;
  }
}

// Longer than others publish for 24 and for 80 GB (unsloth.ai/docs: 78,475 and 342,733 tokens).
TEST(Recipe, RowsOnAQuantizedBaseAreLong) {
  for (const auto& [hardware, length] : {std::pair{"rtx4090", 78'476}, {"h100", 342'734}}) {
    const Config config = load_config(
        "llama3_8b_qlora_8gb.yml",
        std::vector<std::string>{
            "model_name=llama3.1_8b", "lora_rank=32", "remat_policy=custom",
            "decoder_layer_input=offload,offload", "gradient_accumulation_steps=1",
            std::string("hardware=") + hardware, "max_target_length=" + std::to_string(length)},
        kConfigs);
    const PolicyPlan plan = plan_chosen_policy({config, models::Target::cuda});
    EXPECT_TRUE(plan.room.fits()) << hardware << "\n" << fits_text(plan.room);
  }
}

// Under no policy, since nothing before the decoder is trained; where all is, policies differ.
TEST(Recipe, AFrozenTowerKeepsNothing) {
  auto kept = [](const std::string& tower_policy, const std::string& mask) {
    const Config config = load_config(
        "paligemma2_3b.yml",
        std::vector<std::string>{"remat_policy_for_vit=" + tower_policy,
                                 "trainable_parameters_mask=" + mask, "hardware=tpu_v5p"},
        kConfigs);
    return plan_chosen_policy({config, models::Target::cuda}).memory[MemoryKind::device].peak_bytes;
  };
  const std::string attention = "['language_model.*self_attn']";
  EXPECT_EQ(kept("none", attention), kept("full", attention));
  EXPECT_GT(kept("none", "[]"), kept("full", "[]"));
}

}  // namespace
}  // namespace longshore::trainer
