// What was published of host offloading on TPU v5p, walked.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "trainer/config/hardware_file.h"
#include "trainer/planning/plan_report.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";

// Step time under `full` over that under `policy`, less 1.
double gain(const std::string& recipe, const std::string& policy,
            std::vector<std::string> overrides = {}) {
  overrides.push_back("hardware=" + (kConfigs / "hardware/tpu_v5p.yml").string());
  Config config = load_config(recipe, overrides, kConfigs);
  std::vector<PolicyPlan> plans = plan_policies(config, {"full", policy}, models::Target::cuda);
  double gain = plans[0].estimate->step_seconds / plans[1].estimate->step_seconds - 1;
  std::printf("%s: %s is %+.1f %% to full\n", recipe.c_str(), policy.c_str(), 100 * gain);
  return gain;
}

// Google's post on MaxText: about 5 % faster than computing all again. From 4096 tokens a chip on.
TEST(PublishedRuns, Llama13BGainsByOffloadingQueryKeyValue) {
  for (const char* batch : {"per_device_batch_size=2", "per_device_batch_size=4"}) {
    double found = gain("llama2_13b.yml", "qkv_proj_offloaded", {batch, "max_target_length=2048"});
    EXPECT_GT(found, 0.04) << batch;
    EXPECT_LT(found, 0.07) << batch;
  }
}

// Its fine-tuning of PaliGemma 2: the 28B model gains, 3B and 10B lose, because a small model's
// layers compute too little to hide what they send.
TEST(PublishedRuns, PaliGemmaGainsWhereItIsLarge) {
  double small = gain("paligemma2_3b.yml", "qkv_proj_offloaded"),
         middle = gain("paligemma2_10b.yml", "qkv_proj_offloaded"),
         large = gain("paligemma2_28b.yml", "qkv_proj_offloaded");
  EXPECT_LT(small, -0.04);
  EXPECT_LT(middle, -0.02);
  EXPECT_LT(small, middle);
  EXPECT_GT(large, 0.01);
  EXPECT_LT(large, 0.04);  // the post says 10 %
}

}  // namespace
}  // namespace longshore::trainer
