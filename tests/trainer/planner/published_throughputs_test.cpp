// Published throughputs beside the plan's: docs/published_throughputs.md, row by row, with sources.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/advice/plan_report.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";

// Of predicted over published.
struct Bounds {
  double least, most;
};

// Sharded runs within a node: the plan knows no gaps between kernels and nothing that collectives
// take from them there, so it is never below.
constexpr Bounds kSharded{1, 1.6};
// Runs of several nodes.
constexpr Bounds kBeyondNode{1, 1.25};
// The same in eager PyTorch, which a compiler makes a fifth faster.
constexpr Bounds kBeyondNodeEager{1, 1.55};
// As their authors say, at 500 W and 2.4 TB/s instead of 700 W and 3.35.
constexpr Bounds kSlowedCard{1, 1.65};
// Pods, where a stand-in under `full` computes more again than the model that was published.
constexpr Bounds kPod{0.96, 1.25};
// Pods whose experts have room for more than their even share, which they multiply as well.
constexpr Bounds kCapacity{1, 1.35};
// One device, kernels and copies scheduled by hand: nothing is left but how well the profile's
// rates are known.
constexpr Bounds kOneDevice{0.96, 1.1};

struct Batch {
  int sequences, length, accumulation;
};

struct PublishedRun {
  std::string name;
  std::string hardware;
  std::string recipe;
  Batch batch;  // of one device
  std::string policy;
  std::string overrides;  // with spaces between
  double published;       // tokens/s per device
  Bounds bounds;
};

void PrintTo(const PublishedRun& run, std::ostream* out) { *out << run.name; }

const std::string kMpt = "vocab_size=50368 logits_via_embedding=true";
const std::string kMaxText = "head_dim=256 vocab_size=32768 logits_via_embedding=true";
const std::string kBfloat16State = "weight_dtype=bfloat16 moment_dtype=bfloat16";
const std::string kOffloadedProjections =
    "decoder_layer_input=offload query_proj=offload key_proj=offload value_proj=offload "
    "out_proj=offload";
const std::string kAllOnHost =
    "decoder_layer_input=offload parameter_memory_host_offload=true "
    "optimizer_memory_host_offload=true";

// clang-format off
const std::vector<PublishedRun> kRuns = {
    {"Fms_Llama2_7B_A100", "a100_80g", "llama2_7b.yml", {2, 4096, 1}, "none",
     "ici_fsdp_parallelism=8 dcn_fsdp_parallelism=16",
     3700, kBeyondNodeEager},
    {"FmsCompiled_Llama2_7B_A100", "a100_80g", "llama2_7b.yml", {2, 4096, 1}, "none",
     "ici_fsdp_parallelism=8 dcn_fsdp_parallelism=16",
     4526, kBeyondNode},
    {"Fms_Llama2_70B_A100", "a100_80g", "llama2_7b.yml", {2, 4096, 1}, "full",
     "model_name=llama2_70b ici_fsdp_parallelism=8 dcn_fsdp_parallelism=16",
     370, kBeyondNode},
    {"Torchtitan_Llama2_13B_A100", "a100_80g", "llama2_13b.yml", {2, 4096, 1}, "none",
     "ici_fsdp_parallelism=8 dcn_fsdp_parallelism=8",
     2162, kBeyondNode},
    {"Torchtitan_Llama2_70B_A100", "a100_80g", "llama2_7b.yml", {2, 4096, 1}, "full",
     "model_name=llama2_70b ici_fsdp_parallelism=8 dcn_fsdp_parallelism=8",
     353, kBeyondNode},
    {"Torchtitan_Llama3_70B_A100", "a100_80g", "llama3_70b.yml", {1, 8192, 1}, "full",
     "ici_fsdp_parallelism=8 dcn_fsdp_parallelism=8",
     331, kBeyondNode},
    {"LlmFoundry_Mpt3B_A100", "a100_80g", "llama2_7b.yml", {10, 2048, 1}, "none",
     kMpt + " base_emb_dim=2560 base_num_query_heads=20 base_num_kv_heads=20 base_mlp_dim=6826 "
     "ici_fsdp_parallelism=8",
     10811, kSharded},
    {"LlmFoundry_Mpt7B_A100", "a100_80g", "llama2_7b.yml", {6, 2048, 1}, "none",
     kMpt + " base_mlp_dim=10922 ici_fsdp_parallelism=8",
     4641, kSharded},
    {"Fms_Llama2_7B_H100", "h100", "llama2_7b.yml", {2, 4096, 1}, "none",
     "ici_fsdp_parallelism=8 dcn_fsdp_parallelism=12",
     7500, kBeyondNodeEager},
    {"FmsCompiled_Llama2_7B_H100", "h100", "llama2_7b.yml", {2, 4096, 1}, "none",
     "ici_fsdp_parallelism=8 dcn_fsdp_parallelism=12",
     9500, kBeyondNode},
    {"Fms_Llama2_70B_H100", "h100", "llama2_7b.yml", {2, 4096, 1}, "full",
     "model_name=llama2_70b ici_fsdp_parallelism=8 dcn_fsdp_parallelism=12",
     800, kBeyondNodeEager},
    {"Torchtitan_Llama3_8B_H100", "h100", "llama3_8b.yml", {2, 8192, 1}, "minimal_with_context",
     "ici_fsdp_parallelism=8",
     6667, kSlowedCard},
    {"LlmFoundry_Mpt7B_H100", "h100", "llama2_7b.yml", {6, 2048, 1}, "none",
     kMpt + " base_mlp_dim=10922 ici_fsdp_parallelism=8",
     10643, kSharded},
    {"MaxText_Llama2_7B_H100", "h100", "llama2_7b.yml", {4, 4096, 1}, "minimal_with_context",
     "ici_fsdp_parallelism=8",
     11271, kSharded},
    {"Llmq_Qwen0_5B_H100", "h100", "llama2_7b.yml", {32, 1024, 16}, "none",
     kBfloat16State + " model_name=qwen2.5_0.5b",
     149000, kOneDevice},
    {"Llmq_Qwen1_5B_H100", "h100", "llama2_7b.yml", {32, 1024, 16}, "none",
     kBfloat16State + " model_name=qwen2.5_1.5b",
     59248, kOneDevice},
    {"Llmq_Qwen3B_H100", "h100", "llama2_7b.yml", {16, 1024, 32}, "none",
     kBfloat16State + " model_name=qwen2.5_3b",
     30915, kOneDevice},
    {"Llmq_Qwen7B_H100", "h100", "llama2_7b.yml", {4, 1024, 128}, "none",
     kBfloat16State + " model_name=qwen2.5_7b",
     13818, kOneDevice},
    {"Llmq_Qwen0_5B_Rtx4090", "rtx4090", "llama2_7b.yml", {16, 1024, 32}, "none",
     kBfloat16State + " model_name=qwen2.5_0.5b",
     39845, kOneDevice},
    {"Llmq_Qwen1_5B_Rtx4090", "rtx4090", "llama2_7b.yml", {4, 1024, 128}, "none",
     kBfloat16State + " model_name=qwen2.5_1.5b",
     14072, kOneDevice},
    {"Llmq_Qwen3B_Rtx4090", "rtx4090", "llama2_7b.yml", {4, 1024, 128}, "minimal_with_context",
     kBfloat16State + " model_name=qwen2.5_3b optimizer_memory_host_offload=true",
     7004, kOneDevice},
    {"Llmq_Qwen7B_Rtx4090", "rtx4090", "llama2_7b.yml", {16, 1024, 32}, "custom",
     kBfloat16State + " model_name=qwen2.5_7b " + kAllOnHost,
     2777, kOneDevice},
    {"Llmq_Qwen14B_Rtx4090", "rtx4090", "llama2_7b.yml", {32, 1024, 16}, "custom",
     kBfloat16State + " model_name=qwen2.5_14b gradient_memory_host_offload=true " + kAllOnHost,
     1349, kOneDevice},
    {"MaxText_32B_Tpu_v5p", "tpu_v5p", "llama2_7b.yml", {8, 2048, 1}, "minimal",
     "base_emb_dim=10240 base_num_decoder_layers=32 base_num_query_heads=32 base_num_kv_heads=32 "
     "head_dim=256 base_mlp_dim=21846 vocab_size=32768 logits_via_embedding=true ici_fsdp_parallelism=64",
     1652, kSharded},
    {"LlmFoundry_Mpt7B_128H100", "h100", "llama2_7b.yml", {6, 2048, 1}, "none",
     kMpt + " base_mlp_dim=10922 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=16",
     10475, kBeyondNode},
    {"LlmFoundry_Mpt7B_256H100", "h100", "llama2_7b.yml", {6, 2048, 1}, "none",
     kMpt + " base_mlp_dim=10922 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=32",
     10119, kBeyondNode},
    {"LlmFoundry_Mpt7B_512H100", "h100", "llama2_7b.yml", {6, 2048, 1}, "none",
     kMpt + " base_mlp_dim=10922 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=64",
     9670, kBeyondNode},
    {"LlmFoundry_Mpt13B_512H100", "h100", "llama2_7b.yml", {16, 2048, 1}, "full",
     kMpt + " base_emb_dim=5120 base_num_query_heads=40 base_num_kv_heads=40 "
     "base_mlp_dim=13653 base_num_decoder_layers=40 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=64",
     4952, kBeyondNode},
    {"LlmFoundry_Mpt30B_128H100", "h100", "llama2_7b.yml", {8, 2048, 1}, "full",
     kMpt + " base_emb_dim=7168 base_num_query_heads=56 base_num_kv_heads=56 "
     "base_mlp_dim=19114 base_num_decoder_layers=48 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=16",
     2199, kBeyondNode},
    {"LlmFoundry_Mpt30B_512H100", "h100", "llama2_7b.yml", {8, 2048, 1}, "full",
     kMpt + " base_emb_dim=7168 base_num_query_heads=56 base_num_kv_heads=56 "
     "base_mlp_dim=19114 base_num_decoder_layers=48 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=64",
     2115, kBeyondNode},
    {"LlmFoundry_Mpt70B_128H100", "h100", "llama2_7b.yml", {8, 2048, 1}, "full",
     kMpt + " base_emb_dim=8192 base_num_query_heads=64 base_num_kv_heads=64 "
     "base_mlp_dim=21845 base_num_decoder_layers=80 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=16",
     1058, kBeyondNode},
    {"LlmFoundry_Mpt70B_512H100", "h100", "llama2_7b.yml", {8, 2048, 1}, "full",
     kMpt + " base_emb_dim=8192 base_num_query_heads=64 base_num_kv_heads=64 "
     "base_mlp_dim=21845 base_num_decoder_layers=80 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=64",
     1007, kBeyondNode},
    {"LlmFoundry_Mpt70B_64A100", "a100_80g", "llama2_7b.yml", {8, 2048, 4}, "full",
     kMpt + " base_emb_dim=8192 base_num_query_heads=64 base_num_kv_heads=64 "
     "base_mlp_dim=21845 base_num_decoder_layers=80 ici_fsdp_parallelism=8 dcn_fsdp_parallelism=8",
     410, kBeyondNode},
    {"MaxText_Llama2_7B_2A3", "h100_a3", "llama2_7b.yml", {4, 4096, 1}, "minimal_with_context",
     "ici_fsdp_parallelism=8 dcn_data_parallelism=2",
     9668, kBeyondNode},
    {"MaxText_Llama2_7B_4A3", "h100_a3", "llama2_7b.yml", {4, 4096, 1}, "minimal_with_context",
     "ici_fsdp_parallelism=8 dcn_data_parallelism=4",
     9324, kBeyondNode},
    {"MaxText_Llama2_7B_8A3", "h100_a3", "llama2_7b.yml", {4, 4096, 1}, "minimal_with_context",
     "ici_fsdp_parallelism=8 dcn_data_parallelism=8",
     9370, kBeyondNode},
    {"MaxText_Llama2_7B_16A3", "h100_a3", "llama2_7b.yml", {4, 4096, 1}, "minimal_with_context",
     "ici_fsdp_parallelism=8 dcn_data_parallelism=16",
     8591, kBeyondNode},
    {"Torchtitan_Llama3_8B_128H100", "h100", "llama3_8b.yml", {2, 8192, 1}, "minimal_with_context",
     "ici_fsdp_parallelism=8 dcn_fsdp_parallelism=16",
     6514, kSlowedCard},
    {"MaxText_32B_2x64Tpu_v5p", "tpu_v5p", "llama2_7b.yml", {8, 2048, 1}, "minimal",
     kMaxText + " base_emb_dim=10240 base_num_query_heads=32 base_num_kv_heads=32 "
     "base_mlp_dim=21846 base_num_decoder_layers=32 ici_fsdp_parallelism=64 dcn_data_parallelism=2",
     1607, kBeyondNode},
    {"MaxText_64B_1x64Tpu_v5p", "tpu_v5p", "llama2_7b.yml", {4, 2048, 1}, "minimal",
     kMaxText + " base_emb_dim=10240 base_num_query_heads=32 base_num_kv_heads=32 "
     "base_mlp_dim=21846 base_num_decoder_layers=64 ici_fsdp_parallelism=64",
     818, kBeyondNode},
    {"MaxText_128B_1x256Tpu_v5p", "tpu_v5p", "llama2_7b.yml", {1, 2048, 1}, "minimal",
     kMaxText + " base_emb_dim=10240 base_num_query_heads=64 base_num_kv_heads=64 "
     "base_mlp_dim=43691 base_num_decoder_layers=64 ici_fsdp_parallelism=256",
     401, kBeyondNode},
    {"MaxText_128B_2x256Tpu_v5p", "tpu_v5p", "llama2_7b.yml", {2, 2048, 1}, "minimal",
     kMaxText + " base_emb_dim=10240 base_num_query_heads=64 base_num_kv_heads=64 "
     "base_mlp_dim=43691 base_num_decoder_layers=64 ici_fsdp_parallelism=256 dcn_data_parallelism=2",
     348, kBeyondNode},
    {"MaxText_256B_1x512Tpu_v5p", "tpu_v5p", "llama2_7b.yml", {2, 2048, 1}, "minimal",
     kMaxText + " base_emb_dim=20480 base_num_query_heads=64 base_num_kv_heads=64 "
     "base_mlp_dim=43691 base_num_decoder_layers=64 ici_fsdp_parallelism=512",
     197, kBeyondNode},
    {"MaxText_512B_1x512Tpu_v5p", "tpu_v5p", "llama2_7b.yml", {2, 2048, 1}, "full",
     kMaxText + " base_emb_dim=20480 base_num_query_heads=64 base_num_kv_heads=64 "
     "base_mlp_dim=43691 base_num_decoder_layers=128 ici_fsdp_parallelism=512",
     94, kPod},
    {"MaxText_1024B_1x2048Tpu_v5p", "tpu_v5p", "llama2_7b.yml", {2, 2048, 1}, "full",
     kMaxText + " base_emb_dim=20480 base_num_query_heads=128 base_num_kv_heads=128 "
     "base_mlp_dim=87382 base_num_decoder_layers=128 ici_fsdp_parallelism=2048",
     48, kPod},
    {"Llmq_Qwen0_5B_Batch8_Rtx5090", "rtx5090", "llama2_7b.yml", {8, 1024, 8}, "none",
     kBfloat16State + " model_name=qwen2.5_0.5b",
     55000, kOneDevice},
    {"Llmq_Qwen0_5B_Batch16_Rtx5090", "rtx5090", "llama2_7b.yml", {16, 1024, 8}, "none",
     kBfloat16State + " model_name=qwen2.5_0.5b",
     55000, kOneDevice},
    {"Llmq_Qwen1_5B_Batch8_Rtx5090", "rtx5090", "llama2_7b.yml", {8, 1024, 8}, "full",
     kBfloat16State + " model_name=qwen2.5_1.5b",
     17000, kOneDevice},
    {"Llmq_Qwen3B_Batch4_Rtx5090", "rtx5090", "llama2_7b.yml", {4, 1024, 8}, "full",
     kBfloat16State + " model_name=qwen2.5_3b",
     8200, kOneDevice},
    {"Llmq_Qwen3B_Batch8_Rtx5090", "rtx5090", "llama2_7b.yml", {8, 1024, 8}, "full",
     kBfloat16State + " model_name=qwen2.5_3b",
     8600, kOneDevice},
    {"MaxText_Mixtral8x7B_64TpuV5p", "tpu_v5p", "llama2_7b.yml", {36, 4096, 1}, "full",
     "model_name=mixtral_8x7b weight_dtype=bfloat16 ici_fsdp_parallelism=64",
     3038, kPod},
    {"MaxText_Mixtral8x7B_128TpuV5p", "tpu_v5p", "llama2_7b.yml", {36, 4096, 1}, "full",
     "model_name=mixtral_8x7b weight_dtype=bfloat16 ici_fsdp_parallelism=128",
     2909, kPod},
    {"MaxText_Llama4Scout_512TpuV5p", "tpu_v5p", "llama2_7b.yml", {8, 8192, 1}, "custom",
     "model_name=llama4_scout ici_fsdp_parallelism=512 decoder_layer_input=offload",
     2070, kPod},
    {"MaxText_Mixtral8x7B_TpuV6e", "tpu_v6e", "llama2_7b.yml", {8, 4096, 1}, "full",
     "model_name=mixtral_8x7b ici_fsdp_parallelism=256",
     3897, kCapacity},
    {"MaxText_Mixtral8x7B_Offloaded_TpuV6e", "tpu_v6e", "llama2_7b.yml", {12, 4096, 1}, "custom",
     "model_name=mixtral_8x7b ici_fsdp_parallelism=256 " + kOffloadedProjections,
     3645, kCapacity},
    {"MaxText_Mixtral8x22B_Offloaded_TpuV6e", "tpu_v6e", "llama2_7b.yml", {8, 4096, 1}, "custom",
     "model_name=mixtral_8x22b weight_dtype=bfloat16 ici_fsdp_parallelism=256 " +
         kOffloadedProjections,
     1326, kCapacity},
};
// clang-format on

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Row `number` of the page's table, from 1: its cells.
std::vector<std::string> row_of_page(long number) {
  std::ifstream page(fs::path(LONGSHORE_SOURCE_DIR) / "docs/published_throughputs.md");
  const std::string begin = "| " + std::to_string(number) + " | ";
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(begin)) continue;
    std::vector<std::string> cells;
    std::istringstream stream(line.substr(2));
    for (std::string cell; std::getline(stream, cell, '|');) {
      const size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    return cells;
  }
  return {};
}

class PublishedThroughputs : public testing::TestWithParam<PublishedRun> {};

TEST_P(PublishedThroughputs, LieNearThePlan) {
  const PublishedRun& run = GetParam();
  const Batch& batch = run.batch;
  std::vector<std::string> overrides = words(run.overrides);
  overrides.push_back("hardware=" + (kConfigs / "hardware" / (run.hardware + ".yml")).string());
  overrides.push_back("remat_policy=" + run.policy);
  overrides.push_back("per_device_batch_size=" + std::to_string(batch.sequences));
  overrides.push_back("max_target_length=" + std::to_string(batch.length));
  overrides.push_back("gradient_accumulation_steps=" + std::to_string(batch.accumulation));
  Config config = load_config(run.recipe, overrides, kConfigs);
  std::vector<PolicyPlan> plans = plan_policies({config, models::Target::cuda}, {});
  double tokens = 1. * batch.sequences * batch.length * batch.accumulation,
         predicted = tokens / plans[0].estimate->step_seconds;
  EXPECT_GE(predicted, run.bounds.least * run.published);
  EXPECT_LE(predicted, run.bounds.most * run.published);
  EXPECT_LE(plans[0].mfu, 0.9);
  if (config.ici_fsdp_parallelism == 8) {
    EXPECT_TRUE(plans[0].room.fits());
  }
  const long number =
      1 + std::distance(std::begin(kRuns), std::ranges::find(kRuns, run.name, &PublishedRun::name));
  const std::vector<std::string> cells = row_of_page(number);
  ASSERT_EQ(cells.size(), 10u) << "row " << number << " of the page";
  EXPECT_EQ(std::stod(cells[4]), run.published);
  EXPECT_EQ(cells[5], fmt::format("{:.0f}", predicted));
  EXPECT_EQ(cells[6], fmt::format("{:.2f}", predicted / run.published));
  EXPECT_EQ(cells[7], fmt::format("{:.0f} %", 100 * plans[0].mfu));
  EXPECT_EQ(cells[8], fmt::format("{:.1f} %", 100 * plans[0].estimate->phases.exposed_collective /
                                                  plans[0].estimate->step_seconds));
  EXPECT_EQ(cells[9], plans[0].room.fits() ? "yes" : "no");
}

INSTANTIATE_TEST_SUITE_P(Table, PublishedThroughputs, testing::ValuesIn(kRuns),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace longshore::trainer
