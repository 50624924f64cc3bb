// A trial of the options that a plan has agrees with the plan.
#include "longshore/trainer/planner/step_trial.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/step/estimate.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";

// More layers and micro-batches than the short steps of a trial have.
Config config_of(const std::vector<std::string>& more) {
  return load_config_text(
      "model_name: llama3.2_1b\nbase_num_decoder_layers: 60\ngradient_accumulation_steps: 9\n"
      "dtype: bfloat16\nhardware: h100\n",
      kConfigs / "test.yml", more, kConfigs);
}

TEST(StepTrial, TimesOfALongStepFollowFromThoseOfShortOnes) {
  const offload::Hardware hardware = read_hardware("h100", kConfigs);
  const std::vector<std::vector<std::string>> cases{
      {"remat_policy=full"},
      {"remat_policy=qkv_proj_offloaded"},
      {"remat_policy=qkv_proj_offloaded", "offload_layers=2"},
      {"remat_policy=qkv_proj_offloaded", "offload_layers=60"},
      {"remat_policy=full", "optimizer_memory_host_offload=true"}};
  for (const std::vector<std::string>& more : cases) {
    const Config config = config_of(more);
    const RunSpec spec(config, hardware.target, hardware);
    const TrainingPlans plans = plan_training(spec);
    const StepTrials trials(spec, plans);
    const StepTimes times = trials.plan(plans.options, layout_options(config)).times(hardware);
    const Estimate simulated = estimate(plans.step, hardware);
    EXPECT_NEAR(times.step, simulated.step_seconds, 0.003 * simulated.step_seconds) << more.back();
    EXPECT_NEAR(times.recompute, simulated.phases.recompute, 0.003 * simulated.step_seconds)
        << more.back();
    EXPECT_NEAR(times.exposed, simulated.phases.exposed_transfer + simulated.phases.exposed_host,
                0.003 * simulated.step_seconds)
        << more.back();
  }
}

TEST(StepTrial, MemoryIsThatOfTheWholeRun) {
  const offload::Hardware hardware = read_hardware("h100", kConfigs);
  const Config config = config_of({"remat_policy=full"});
  const RunSpec spec(config, hardware.target, hardware);
  const TrainingPlans plans = plan_training(spec);
  const MemoryByKind planned = analyze(plans);
  const MemoryByKind tried = StepTrials(spec, plans).memory(plans.options);
  for (offload::MemoryKind kind : offload::kMemoryKinds)
    EXPECT_EQ(tried[kind].peak_bytes, planned[kind].peak_bytes) << name(kind);
}

}  // namespace
}  // namespace longshore::trainer
