// bench_growth [--policy NAME] [--layers a,b] [--rounds N]
//
// What grows with a model's depth: the time to plan a step, what running the plan costs apart from
// its kernels and copies, the time of a layer, and memory that is in no plan. A Llama 256 wide on
// 256 tokens, so that kernels are short.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "longshore/base/exit_code.h"
#include "longshore/base/timing.h"
#include "longshore/offload/memory/host_memory.h"
#include "longshore/trainer/config/backend_choice.h"
#include "tests/bench/contender.h"
#include "tests/offload/forwarding_backend.h"

namespace longshore::bench {
namespace {

using offload::Lane;

// Memory, but no work: what is left of a step is the executor's.
class IdleBackend : public offload::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void run(Lane, const models::Op&, const models::KernelCall&) override {}
  void copy(Lane, const models::Ref&, const models::Ref&) override {}
  void record(Lane, int) override {}
  void wait(Lane, int) override {}
};

// The quickest of so many steps, after one that does not count.
double step_seconds(Contender& contender, int rounds) {
  contender.step();
  return quickest_seconds(rounds, [&] { contender.step(); });
}

void measure(int64_t layers, const std::string& policy, int rounds) {
  const trainer::Config config =
      llama({.width = 256, .layers = layers, .length = 256, .batch = 1, .vocabulary = 1024},
            "float32", {"remat_policy=" + policy});
  const std::unique_ptr<offload::Backend> backend = trainer::make_backend(models::Target::cpu);
  IdleBackend idle(*backend);
  const auto start = std::chrono::steady_clock::now();
  const trainer::TrainingPlans plans = trainer::plan_training({config, models::Target::cpu});
  const double planning = seconds_since(start);
  double instructions = 0;
  for (const offload::Plan* plan : plans.step.in_order())
    instructions += static_cast<double>(plan->instructions.size());
  auto contender = std::make_unique<Contender>(config, idle);
  const double executing = step_seconds(*contender, rounds);
  contender.reset();  // so that the next one is alone
  const int64_t before = offload::resident_bytes();
  contender = std::make_unique<Contender>(config, *backend);
  const double step = step_seconds(*contender, rounds);
  const int64_t planned = trainer::total_peak_bytes(analyze(plans));
  std::printf("%8ld %10.0f %10.1f %12.0f %10.1f %12.2f %12.1f %12.1f\n", static_cast<long>(layers),
              instructions, 1e3 * planning, 1e9 * executing / instructions, 1e3 * step,
              1e3 * step / static_cast<double>(layers), static_cast<double>(planned) / 1048576,
              static_cast<double>(offload::resident_bytes() - before - planned) / 1048576);
  std::fflush(stdout);
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("What grows with the number of layers.", "bench_growth");
  std::string policy = "qkv_proj_offloaded";
  std::vector<int64_t> layers{2, 8, 32, 100, 200};
  int rounds = 7;
  app.add_option("--policy", policy, "a remat policy")->capture_default_str();
  app.add_option("--layers", layers, "of the models")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--rounds", rounds, "steps, the quickest of which counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_growth", [&] {
    std::printf("%8s %10s %10s %12s %10s %12s %12s %12s\n", "layers", "in plan", "plan, ms",
                "run, ns each", "step, ms", "layer, ms", "plan, MiB", "beyond, MiB");
    for (int64_t count : layers) bench::measure(count, policy, rounds);
  });
}
