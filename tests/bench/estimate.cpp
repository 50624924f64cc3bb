// bench_estimate [--hardware NAME] [--rounds N]
//
// Predicted and measured time of training steps, for a grid of sizes, dtypes and remat policies:
// what the profile (this_machine by default, which plan --measure makes) says, and the median of
// steps of all policies in turns. Ends with the median error, and with every pair of policies whose
// measured times differ by more than 5 % but are predicted in the other order.
#include "trainer/step/estimate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "base/timing.h"
#include "tests/bench/contender.h"
#include "trainer/config/backend_choice.h"
#include "trainer/config/hardware_file.h"

namespace longshore::bench {
namespace {

using offload::Backend;

const std::vector<std::string> kPolicies{"none", "full", "save_qkv_proj", "minimal",
                                         "qkv_proj_offloaded"};

constexpr Size kSizes[] = {
    {256, 4, 512, 4}, {512, 4, 512, 4}, {512, 8, 1024, 1}, {1024, 4, 512, 2}};

struct Times {
  std::string policy;
  double predicted = 0, measured = 0;
  double error() const { return predicted / measured - 1; }
};

std::vector<Times> measure(const Size& size, const std::string& dtype, int rounds,
                           const offload::Hardware& hardware, Backend& backend) {
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& policy : kPolicies)
    contenders.push_back(
        std::make_unique<Contender>(llama(size, dtype, {"remat_policy=" + policy}), backend));
  std::vector<double> medians = median_seconds(contenders, rounds);
  std::vector<Times> times;
  for (size_t i = 0; i < contenders.size(); ++i)
    times.push_back(
        {kPolicies[i], estimate(contenders[i]->plans().step, hardware).step_seconds, medians[i]});
  return times;
}

void run(const std::string& profile, int rounds) {
  offload::Hardware hardware =
      trainer::read_hardware(profile, trainer::default_configs_directory());
  std::unique_ptr<Backend> backend = trainer::make_backend(models::Target::cpu);
  std::vector<double> errors;
  std::vector<std::string> swapped;
  int pairs = 0;
  std::printf("%-34s %-20s %10s %10s %8s\n", "size", "policy", "predicted", "measured", "error");
  for (const Size& size : kSizes)
    for (const char* dtype : {"float32", "bfloat16"}) {
      std::string name = fmt::format("{} wide, {} layers, {}x{}, {}", size.width, size.layers,
                                     size.batch, size.length, dtype);
      std::vector<Times> times = measure(size, dtype, rounds, hardware, *backend);
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
  int rounds = 7;
  app.add_option("--hardware", hardware, "a profile")->capture_default_str();
  app.add_option("--rounds", rounds, "steps of each policy")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_estimate", [&] { bench::run(hardware, rounds); });
}
