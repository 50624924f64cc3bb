// bench_auto [--hardware NAME] [--rounds N] [--random N] [--limits a,b]
//
// What `auto` chooses under limits of device memory, beside every named policy and random plans
// that fit: measured step times over that of the choice, and how far it is from the fastest. A
// limit is a fraction of the way from the least that a plan takes to what `none` does.
#include "longshore/trainer/planner/auto/auto_policy.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/auto/auto_account.h"
#include "longshore/trainer/planner/policy_plan.h"
#include "tests/bench/calm_turns.h"
#include "tests/bench/contender.h"

namespace longshore::bench {
namespace {

using offload::MemoryKind;
using trainer::Config;

constexpr Size kSize{256, 8, 512, 4};
constexpr double kGibibyte = int64_t{1} << 30;
constexpr models::Target kTarget = models::Target::cpu;

// A plan that takes part.
struct Entry {
  std::string name;
  Config config;
  double predicted = 0, measured = 0;  // seconds, then over those of the choice
};

int64_t device_bytes(const Config& config, const offload::Hardware& hardware) {
  return trainer::plan_chosen_policy({config, kTarget, hardware})
      .memory[MemoryKind::device]
      .peak_bytes;
}

Config random_config(Config config, std::mt19937& random) {
  auto coin = [&] { return random() % 2 == 0; };
  config.remat_policy = "custom";
  config.offload_layers = 1 + static_cast<int64_t>(random() % kSize.layers);
  for (const char* label :
       {"query_proj", "key_proj", "value_proj", "context", "out_proj", "mlpwi_0", "mlpwi_1"})
    for (int part = 0; part < 2; ++part)
      config.label_actions[label].push_back(
          std::vector<std::string>{"remat", "device", "offload"}[random() % 3]);
  config.label_actions["decoder_layer_input"] = {coin() ? "device" : "offload"};
  config.label_actions[offload::kUnlabelled] = {coin() ? "device" : "remat"};
  config.parameter_memory_host_offload = random() % 4 == 0;
  config.gradient_memory_host_offload = random() % 4 == 0;
  config.optimizer_memory_host_offload = random() % 4 == 0;
  return config;
}

// The choice, what it tried of named policies, and random plans.
std::vector<Entry> entries(const Config& config, const offload::Hardware& hardware, int random,
                           std::mt19937& generator) {
  std::vector<Entry> list;
  trainer::AutoChoice choice = trainer::choose_policy({config, kTarget});
  std::set<std::string> seen;
  for (const trainer::SimulatedPlan& simulated : choice.plans) {
    bool is_choice = list.empty();
    const std::string& policy = simulated.config.remat_policy;
    if (!is_choice && (policy == "custom" || !simulated.room.fits() || !seen.insert(policy).second))
      continue;
    list.push_back({is_choice ? "auto: " + summary(simulated.config) : summary(simulated.config),
                    simulated.config, simulated.step_seconds});
  }
  for (int tries = 0; random > 0 && tries < 10000; ++tries) try {
      Config one = random_config(config, generator);
      trainer::PolicyPlan plan = trainer::plan_chosen_policy({one, kTarget, hardware});
      if (!plan.room.fits()) continue;
      list.push_back({"random: " + summary(one), one, plan.estimate->step_seconds});
      --random;
    } catch (const ConfigError&) {
      // An offload of what nothing reads.
    }
  return list;
}

void run(const std::string& profile, int rounds, int random, const std::vector<double>& limits) {
  const std::vector<std::string> keys{"hardware=" + profile};
  Config config = llama(kSize, "bfloat16", keys);
  offload::Hardware hardware = *trainer::RunSpec::on_profile(config).hardware();
  std::unique_ptr<offload::Backend> backend = trainer::make_backend(kTarget);
  Config least = with_policy(config, "full"), most = with_policy(config, "none");
  least.parameter_memory_host_offload = least.gradient_memory_host_offload =
      least.optimizer_memory_host_offload = true;
  double low = static_cast<double>(device_bytes(least, hardware)),
         high = static_cast<double>(device_bytes(most, hardware));
  config.remat_policy = offload::kAuto;
  for (double part : limits) {
    std::mt19937 generator(1);
    config.device_memory_limit = (low + part * (high - low)) / kGibibyte;
    std::vector<Entry> list = entries(config, hardware, random, generator);
    std::vector<std::unique_ptr<Contender>> contenders;
    for (const Entry& entry : list)
      contenders.push_back(std::make_unique<Contender>(entry.config, *backend));
    const std::vector<double> ratios = CalmTurns(contenders).ratios(rounds);
    double chosen = list[0].predicted;
    for (size_t i = 0; i < list.size(); ++i) {
      list[i].measured = ratios[i];
      list[i].predicted /= chosen;
    }
    std::ranges::stable_sort(list, {}, &Entry::measured);
    std::printf("%.0f MiB on the device, %zu plans: auto takes %+.1f %% to the fastest\n",
                1024 * *config.device_memory_limit, list.size(), 100 * (1 / list[0].measured - 1));
    std::printf("  %9s %9s\n", "measured", "predicted");
    for (const Entry& entry : list)
      std::printf("  %9.3f %9.3f  %s\n", entry.measured, entry.predicted, entry.name.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Measures what remat_policy auto chooses beside other plans.", "bench_auto");
  std::string hardware = "this_machine";
  int rounds = 9, random = 20;
  app.add_option("--hardware", hardware, "a profile")->capture_default_str();
  app.add_option("--rounds", rounds, "steps of each plan")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--random", random, "random plans")->capture_default_str();
  std::vector<double> limits{0.3, 0.6, 0.9};
  app.add_option("--limits", limits, "of memory")
      ->delimiter(',')
      ->check(CLI::Range(0., 1.))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_auto", [&] { bench::run(hardware, rounds, random, limits); });
}
