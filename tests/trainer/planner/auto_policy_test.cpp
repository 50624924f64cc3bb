// What `auto` chooses is as good as anything that can be asked for by name, on the virtual clock.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/offload/policy/assignments.h"
#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/auto/auto_account.h"
#include "longshore/trainer/planner/auto/auto_search_space.h"
#include "longshore/trainer/planner/policy_plan.h"
#include "tests/data/temporary_folder.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;
using offload::Hardware;
using offload::MemoryKind;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";
constexpr models::Target kTarget = models::Target::cuda;
constexpr double kGibibyte = int64_t{1} << 30;

// A GPU on which a layer of the small models takes about as long as its values on the link.
Hardware gpu(double link) {
  Hardware hardware = offload::uniform_hardware(kTarget, {.flops_per_second = 1e13,
                                                          .device_bytes_per_second = 1e11,
                                                          .link_bytes_per_second = link,
                                                          .host_flops_per_second = 1e11,
                                                          .host_bytes_per_second = 1e10,
                                                          .launch_seconds = 1e-7});
  hardware.device_bytes = hardware.host_bytes = int64_t{1} << 40;
  return hardware;
}

// A processor whose lanes take turns.
Hardware processor() {
  Hardware hardware =
      offload::uniform_hardware(models::Target::cpu, {.flops_per_second = 1e12,
                                                      .device_bytes_per_second = 2e10,
                                                      .link_bytes_per_second = 2e10,
                                                      .host_flops_per_second = 1e12,
                                                      .host_bytes_per_second = 2e10,
                                                      .launch_seconds = 1e-7});
  hardware.device_bytes = hardware.host_bytes = int64_t{1} << 40;
  hardware.cache_bytes = int64_t{1} << 25;
  hardware.fetch_bytes_per_second = 2e10;
  return hardware;
}

class AutoPolicy : public testing::Test {
 protected:
  Config config_of(const std::string& model, const Hardware& hardware,
                   std::vector<std::string> more = {}) {
    fs::path file = folder_ / ("gpu" + std::to_string(files_++) + ".yml");
    write_file(file, text(hardware));
    std::string lines = "model_type: " + model +
                        "\nbase_emb_dim: 256\nbase_num_decoder_layers: 6\nbase_num_query_heads: 4\n"
                        "base_num_kv_heads: 2\nhead_dim: 64\nbase_mlp_dim: 512\nvocab_size: 512\n"
                        "max_target_length: 512\nper_device_batch_size: 4\ndtype: auto\n"
                        "remat_policy: auto\nhardware: " +
                        file.string() + "\n";
    if (model == "gemma2") lines += "sliding_window_size: 128\nfull_attention_period: 2\n";
    return load_config_text(lines, kConfigs / "test.yml", more, kConfigs);
  }

  data::TemporaryFolder folder_;
  int files_ = 0;
};

Config with_limit(Config config, double device_bytes) {
  config.device_memory_limit = device_bytes / kGibibyte;
  return config;
}

// What a config takes under a named policy and with each choice of homes.
struct Named {
  std::string policy;
  double seconds = 0;
  int64_t device_bytes = 0;
};

std::vector<Named> all_named(const Config& config) {
  Hardware hardware = *RunSpec::on_profile(config).hardware();
  std::vector<Named> list;
  for (const offload::PolicyInfo& info : offload::policies())
    for (int homes = 0; homes < 8 && info.name != "custom"; ++homes) {
      Config one = config;
      one.remat_policy = info.name;
      one.parameter_memory_host_offload = homes & 1;
      one.gradient_memory_host_offload = homes & 2;
      one.optimizer_memory_host_offload = homes & 4;
      PolicyPlan plan = plan_chosen_policy({one, hardware.target, hardware});
      list.push_back(
          {info.name, plan.estimate->step_seconds, plan.memory[MemoryKind::device].peak_bytes});
    }
  return list;
}

int64_t device_bytes(const SimulatedPlan& tried) {
  return tried.memory[MemoryKind::device].peak_bytes;
}

TEST_F(AutoPolicy, LosesToNoNamedPolicyThatFits) {
  struct Case {
    const char* model;
    Hardware hardware;
    std::vector<double> parts;  // of the way from the least to the most that a name takes
  };
  double gain = 0;
  for (const auto& [model, hardware, parts] :
       {Case{"llama", gpu(2e9), {0.1, 0.4}}, Case{"gemma2", gpu(2e10), {0.4, 1.0}},
        Case{"llama", processor(), {0.05, 0.1, 0.3, 0.5}}}) {
    Config config = config_of(model, hardware);
    std::vector<Named> named = all_named(config);
    auto [least, most] = std::ranges::minmax(named, {}, &Named::device_bytes);
    for (double part : parts) {
      double limit = static_cast<double>(least.device_bytes) +
                     part * static_cast<double>(most.device_bytes - least.device_bytes);
      Named best{.seconds = INFINITY};
      for (const Named& one : named)
        if (static_cast<double>(one.device_bytes) <= limit && one.seconds < best.seconds)
          best = one;
      SimulatedPlan choice = choose_policy({with_limit(config, limit), hardware.target}).chosen();
      SCOPED_TRACE(std::string(model) + ": " + summary(choice.config) + ", beside " + best.policy);
      EXPECT_LE(device_bytes(choice), limit);
      EXPECT_LE(choice.step_seconds, 1.01 * best.seconds);
      gain = std::max(gain, best.seconds / choice.step_seconds - 1);
    }
  }
  EXPECT_GT(gain, 0.05) << "no mixture is better than a name";
}

// The time of a step under `custom`, with what is set.
double custom_seconds(Config config) {
  config.remat_policy = "custom";
  const Hardware hardware = *RunSpec::on_profile(config).hardware();
  const PolicyPlan plan = plan_chosen_policy({config, hardware.target, hardware});
  EXPECT_TRUE(plan.room.fits());
  return plan.estimate->step_seconds;
}

// Then all layers are the others.
TEST_F(AutoPolicy, ChoosesForLayersThatAreNotTheFirst) {
  const std::vector<std::string> keys{"offload_layers=0", "context=device"};
  const Config config = config_of("llama", gpu(1e12), keys);
  const SimulatedPlan choice = choose_policy({config, kTarget}).chosen();
  std::vector<std::string> custom = keys;
  for (const char* label : {"query_proj", "key_proj", "value_proj", "out_proj", "mlpwi_0",
                            "mlpwi_1", "mlpwo", "unlabelled"})
    custom.push_back(label + std::string("=device"));
  EXPECT_LE(choice.step_seconds, 1.01 * custom_seconds(config_of("llama", gpu(1e12), custom)))
      << summary(choice.config);
}

// Where transfers start at their use, kernels wait for all of them.
TEST_F(AutoPolicy, KnowsThatAtDepth0NothingIsHidden) {
  std::vector<std::string> keys{
      "prefetch_layers=0", "decoder_layer_input=device", "parameter_memory_host_offload=false",
      "gradient_memory_host_offload=false", "optimizer_memory_host_offload=false"};
  const Hardware hardware = gpu(2e9);
  const double limit = 135e6;
  const SimulatedPlan choice =
      choose_policy({with_limit(config_of("llama", hardware, keys), limit), kTarget}).chosen();
  for (const char* label : {"query_proj", "key_proj", "value_proj"})
    keys.push_back(label + std::string("=device"));
  EXPECT_LE(choice.step_seconds,
            1.01 * custom_seconds(with_limit(config_of("llama", hardware, keys), limit)))
      << summary(choice.config);
}

TEST_F(AutoPolicy, AFasterLinkGivesNoSlowerPlan) {
  double before = INFINITY;
  for (double link : {5e8, 2e9, 8e9, 3.2e10}) {
    Config config = with_limit(config_of("llama", gpu(link)), 75e6);
    SimulatedPlan choice = choose_policy({config, kTarget}).chosen();
    EXPECT_LE(choice.step_seconds, before * 1.002) << link << ": " << summary(choice.config);
    before = choice.step_seconds;
  }
}

TEST_F(AutoPolicy, MovesNothingWhereAllFits) {
  SimulatedPlan choice = choose_policy({config_of("llama", gpu(1e12)), kTarget}).chosen();
  const Config& config = choice.config;
  EXPECT_FALSE(config.parameter_memory_host_offload || config.gradient_memory_host_offload ||
               config.optimizer_memory_host_offload);
  EXPECT_EQ(choice.phases.recompute, 0);
  EXPECT_EQ(choice.config.remat_policy, "none");
}

TEST_F(AutoPolicy, KeepsKeysThatAreSet) {
  Config config = config_of("llama", gpu(1e10),
                            {"context=offload", "optimizer_memory_host_offload=true",
                             "gradient_memory_host_offload=false", "offload_layers=3"});
  for (const SimulatedPlan& tried : choose_policy({config, kTarget}).plans) {
    EXPECT_TRUE(tried.config.optimizer_memory_host_offload);
    EXPECT_FALSE(tried.config.gradient_memory_host_offload);
    EXPECT_EQ(tried.config.offload_layers, 3);
    EXPECT_EQ(tried.config.label_actions.at("context")[0], "offload");
  }
}

// The run directory's config.yml is such a file.
TEST_F(AutoPolicy, TheChoiceIsWrittenSoThatItCanBeRepeated) {
  Config config = with_limit(config_of("gemma2", gpu(8e9), {"auto_micro_batch=true"}), 90e6);
  SimulatedPlan choice = choose_policy({config, kTarget}).chosen();
  fs::path file = folder_ / "config.yml";
  write_resolved(choice.config, file);
  Config again = load_config(file, {}, kConfigs);
  PolicyPlan plan = plan_chosen_policy({again, kTarget});
  EXPECT_EQ(plan.estimate->step_seconds, choice.step_seconds);
  EXPECT_EQ(plan.memory[MemoryKind::device].peak_bytes, device_bytes(choice));
  // So are the keys that are printed.
  std::vector<std::string> keys;
  for (const auto& [key, value] : chosen_keys(choice.config)) keys.push_back(key + "=" + value);
  keys.push_back("hardware=" + config.hardware);
  Config typed = config_of("gemma2", gpu(8e9), keys);
  EXPECT_EQ(plan_chosen_policy({typed, kTarget}).estimate->step_seconds, choice.step_seconds);
}

// Below the first adapters nothing is read, so the first layers are not like the others.
TEST_F(AutoPolicy, KnowsLayersThatReadLess) {
  Config config = config_of("gemma2", gpu(1e10), {"lora_rank=4"});
  for (double limit : {65e6, 90e6}) {
    SimulatedPlan choice = choose_policy({with_limit(config, limit), kTarget}).chosen();
    EXPECT_LE(device_bytes(choice), limit) << summary(choice.config);
  }
}

TEST_F(AutoPolicy, CutsAStepIntoTheMicroBatchesThatAreFastest) {
  Config config = config_of("llama", gpu(1e10), {"auto_micro_batch=true"});
  SimulatedPlan whole = choose_policy({config, kTarget}).chosen();
  EXPECT_EQ(whole.config.per_device_batch_size, 4);
  SimulatedPlan cut = choose_policy({with_limit(config, 38e6), kTarget}).chosen();
  EXPECT_LT(cut.config.per_device_batch_size, 4) << summary(cut.config);
  EXPECT_EQ(cut.config.per_device_batch_size * cut.config.gradient_accumulation_steps, 4);
}

// Where what is fetched ahead is too much.
TEST_F(AutoPolicy, FetchesLaterWhereNothingElseFits) {
  const Config config = config_of("llama", gpu(1e10));
  Config late = config;
  late.prefetch_layers = 0;
  late.origins["prefetch_layers"] = "command line";
  auto fits = [&](double bytes) {
    return find_policy({with_limit(late, bytes), kTarget}).has_value();
  };
  double too_little = 1e6, limit = 2e6;
  for (; !fits(limit); limit *= 2) too_little = limit;
  while (limit > 1.03 * too_little) {
    const double middle = std::sqrt(too_little * limit);
    (fits(middle) ? limit : too_little) = middle;
  }
  const SimulatedPlan choice = choose_policy({with_limit(config, limit), kTarget}).chosen();
  EXPECT_LE(device_bytes(choice), limit);
  EXPECT_EQ(choice.config.origins.at("prefetch_layers"), kChosen);
}

TEST_F(AutoPolicy, SaysWhatIsMissingWhereNothingFits) {
  Config config = with_limit(config_of("llama", gpu(1e10)), 1e6);
  try {
    choose_policy({config, kTarget});
    FAIL() << "fits a megabyte";
  } catch (const PlanError& error) {
    for (const char* part :
         {"none fits", "The smallest", "over device_memory_limit", "per_device_batch"})
      EXPECT_THAT(error.what(), HasSubstr(part));
    for (const char* searched : {"remat_policy=", "memory_host_offload=", "prefetch_layers="})
      EXPECT_THAT(error.what(), Not(HasSubstr(searched)));
  }
}

TEST_F(AutoPolicy, RefusesAProfileOfAnotherKindOfMachine) {
  EXPECT_THROW(choose_policy({config_of("llama", gpu(1e10)), models::Target::cpu}), ConfigError);
}

// No assignment that is left out beats one that is not, and each is what a policy of it takes.
TEST_F(AutoPolicy, AssignmentsAreThoseThatNoneBeats) {
  Hardware hardware = gpu(1e10);
  for (const char* name : {"llama", "gemma2"}) {
    models::Model model = make_model(config_of(name, hardware), kTarget);
    const models::Stage& stage = model.stages[1];
    std::vector<offload::Assignment> best = offload::assignments(stage, {}, hardware);
    EXPECT_GT(best.size(), 20u);
    auto is_as_good = [](const offload::Assignment& a, const offload::Assignment& b) {
      return a.kept_bytes <= b.kept_bytes && a.offloaded_bytes <= b.offloaded_bytes &&
             a.backward_seconds <= b.backward_seconds * (1 + 1e-12);
    };
    for (const offload::PolicyInfo& info : offload::policies()) {
      offload::Assignment named =
          offload::assign(stage, offload::make_policy(info.name, {}, stage.programs[0]), hardware);
      EXPECT_TRUE(std::ranges::any_of(best, [&](const auto& a) { return is_as_good(a, named); }))
          << info.name;
    }
    for (const offload::Assignment& one : best) {
      offload::Assignment again = offload::assign(stage, one.policy, hardware);
      EXPECT_EQ(again.kept_bytes, one.kept_bytes);
      EXPECT_EQ(again.offloaded_bytes, one.offloaded_bytes);
      EXPECT_EQ(again.backward_seconds, one.backward_seconds);
      EXPECT_EQ(std::ranges::count_if(best, [&](const auto& a) { return is_as_good(a, one); }), 1);
    }
  }
}

}  // namespace
}  // namespace longshore::trainer
