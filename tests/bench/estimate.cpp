// bench_estimate [--hardware NAME] [--rounds N] [--policies a,b] [--widths a,b] [--ops]
//
// Predicted and measured time of training steps, for a grid of sizes, dtypes and remat policies:
// what the profile (this_machine by default, which plan --measure makes) says, and what was
// measured: of the first policy the quickest step, of the others their ratio to it. Ends with the
// median error, and with every pair of policies whose measured times differ by more than 5 % but
// are predicted in the other order.
// --ops: of each lane's ops too, where the two part.
#include "longshore/trainer/step/estimate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "longshore/base/exit_code.h"
#include "longshore/base/timing.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "tests/bench/calm_turns.h"
#include "tests/bench/contender.h"

namespace longshore::bench {
namespace {

using offload::Backend;

constexpr Size kSizes[] = {
    {256, 4, 512, 4}, {512, 4, 512, 4}, {512, 8, 1024, 1}, {1024, 4, 512, 2}};

struct Times {
  std::string policy;
  double predicted = 0, measured = 0;
  double error() const { return predicted / measured - 1; }
};

void print_ops(Contender& contender, int rounds, const offload::Hardware& hardware) {
  const auto predicted =
      seconds_by_op(offload::events_of(estimate(contender.plans().step, hardware).runs));
  decltype(seconds_by_op({})) measured;
  for (int round = 0; round < rounds; ++round)
    for (const auto& [op, seconds] : seconds_by_op(contender.record())) {
      double& least = measured.try_emplace(op, seconds).first->second;
      least = std::min(least, seconds);
    }
  for (const auto& [op, seconds] : measured) {
    const double said = predicted.contains(op) ? predicted.at(op) : 0;
    if (std::abs(said - seconds) > 1e-4)
      std::printf("    %-14s %-28s %10.4f %10.4f %+10.4f\n", name(op.first), op.second.c_str(),
                  said, seconds, said - seconds);
  }
}

std::vector<Times> measure(const Size& size, const std::string& dtype,
                           const std::vector<std::string>& policies, int rounds, bool ops,
                           const offload::Hardware& hardware, Backend& backend) {
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& policy : policies)
    contenders.push_back(
        std::make_unique<Contender>(llama(size, dtype, {"remat_policy=" + policy}), backend));
  CalmTurns turns(contenders);
  const std::vector<double> ratios = turns.ratios(rounds);
  std::vector<Times> times;
  for (size_t i = 0; i < contenders.size(); ++i) {
    times.push_back({policies[i], estimate(contenders[i]->plans().step, hardware).step_seconds,
                     ratios[i] * turns.first_seconds()});
    if (ops) print_ops(*contenders[i], rounds, hardware);
  }
  return times;
}

void run(const std::string& profile, const std::vector<int64_t>& widths,
         const std::vector<std::string>& policies, int rounds, bool ops) {
  offload::Hardware hardware =
      trainer::read_hardware(profile, trainer::default_configs_directory());
  std::unique_ptr<Backend> backend = trainer::make_backend(models::Target::cpu);
  std::vector<double> errors;
  std::vector<std::string> swapped;
  int pairs = 0;
  std::printf("%-34s %-20s %10s %10s %8s\n", "size", "policy", "predicted", "measured", "error");
  for (const Size& size : kSizes)
    for (const char* dtype : {"float32", "bfloat16"}) {
      if (std::ranges::find(widths, size.width) == widths.end()) continue;
      std::string name = fmt::format("{} wide, {} layers, {}x{}, {}", size.width, size.layers,
                                     size.batch, size.length, dtype);
      std::vector<Times> times = measure(size, dtype, policies, rounds, ops, hardware, *backend);
      for (const Times& t : times) {
        std::printf("%-34s %-20s %10.4f %10.4f %+7.1f%%\n", name.c_str(), t.policy.c_str(),
                    t.predicted, t.measured, 100 * t.error());
        std::fflush(stdout);
        errors.push_back(std::abs(t.error()));
        for (const Times& other : times) {
          if (other.measured < 1.05 * t.measured) continue;
          ++pairs;
          if (other.predicted < t.predicted)
            swapped.push_back(name + ": " + t.policy + " before " + other.policy);
        }
      }
    }
  std::printf("median error %.1f %%, largest %.1f %%; %zu of %d pairs in the wrong order\n",
              100 * median(errors), 100 * *std::max_element(errors.begin(), errors.end()),
              swapped.size(), pairs);
  for (const std::string& pair : swapped) std::printf("  %s\n", pair.c_str());
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Compares predicted and measured step times.", "bench_estimate");
  std::string hardware = "this_machine";
  std::vector<std::string> policies{"none", "full", "save_qkv_proj", "minimal",
                                    "qkv_proj_offloaded"};
  std::vector<int64_t> widths{256, 512, 1024};
  int rounds = 9;
  bool ops = false;
  app.add_option("--hardware", hardware, "a profile")->capture_default_str();
  app.add_option("--rounds", rounds, "steps of each policy")->capture_default_str();
  app.add_option("--policies", policies, "remat policies")->delimiter(',')->capture_default_str();
  app.add_option("--widths", widths, "of models")
      ->delimiter(',')
      ->check(CLI::IsMember(widths))
      ->capture_default_str();
  app.add_flag("--ops", ops, "where predicted and measured times of ops part");
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_estimate",
                      [&] { bench::run(hardware, widths, policies, rounds, ops); });
}
