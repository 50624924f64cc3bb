// bench_estimate [--hardware NAME] [--rounds N]
//
// Predicted and measured time of training steps, for a grid of sizes, dtypes and remat policies:
// what the profile (this_machine by default, which plan --measure makes) says, and the median of
// steps of all policies in turns. Ends with the median error, and with every pair of policies whose
// measured times differ by more than 5 % but are predicted in the other order.
#include "trainer/estimate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "base/timing.h"
#include "data/batches.h"
#include "trainer/backend_choice.h"
#include "trainer/config.h"
#include "trainer/hardware_file.h"
#include "trainer/initialize.h"
#include "trainer/training_plans.h"

namespace longshore::bench {
namespace {

using offload::Backend;
using offload::MemoryKind;
using trainer::Config;
using trainer::TrainingPlans;

const std::vector<std::string> kPolicies{"none", "full", "save_qkv_proj", "minimal",
                                         "qkv_proj_offloaded"};

struct Size {
  int64_t width, layers, length, batch;
};
constexpr Size kSizes[] = {
    {256, 4, 512, 4}, {512, 4, 512, 4}, {512, 8, 1024, 1}, {1024, 4, 512, 2}};

Config config_of(const Size& size, const std::string& dtype, const std::string& policy) {
  std::string text = fmt::format(
      "base_emb_dim: {0}\nbase_num_decoder_layers: {1}\nbase_num_query_heads: {2}\n"
      "base_num_kv_heads: {3}\nhead_dim: 64\nbase_mlp_dim: {4}\nvocab_size: 8192\n"
      "max_target_length: {5}\nper_device_batch_size: {6}\ndtype: {7}\nremat_policy: {8}\n"
      "backend: cpu\n",
      size.width, size.layers, size.width / 64, std::max<int64_t>(1, size.width / 256),
      11 * size.width / 4, size.length, size.batch, dtype, policy);
  return trainer::load_config_text(text, "bench.yml", {}, trainer::default_configs_directory());
}

// A run of one policy, with parameters of its own.
class Contender {
 public:
  Contender(const Config& config, Backend& backend)
      : plans_(plan_training(config, models::Target::cpu)), arguments_(backend, ledger_) {
    trainer::MemoryByKind memory = trainer::analyze(plans_.all());
    auto arena = [&](MemoryKind kind) {
      return std::make_unique<offload::Arena>(backend, kind, trainer::of(memory, kind).temp_bytes);
    };
    device_ = arena(MemoryKind::device);
    host_ = arena(MemoryKind::pinned_host);
    trainer::initialize(plans_.layout, 0, arguments_);
    step_ = std::make_unique<trainer::TrainStep>(plans_.step, plans_.options.optimizer->adamw,
                                                 backend, arguments_, *device_, *host_);
    batch_ = data::synthetic_batches({config.per_device_batch_size, config.max_target_length},
                                     static_cast<int32_t>(config.vocab_size), 0)(0);
  }

  double predicted(const offload::Hardware& hardware) const {
    return estimate(plans_.step, hardware).step_seconds;
  }
  double step() {
    auto start = std::chrono::steady_clock::now();
    step_->run({batch_}, {.learning_rate = 1e-4, .number = ++number_}, ledger_);
    return seconds_since(start);
  }

 private:
  TrainingPlans plans_;
  offload::Ledger ledger_;
  offload::Arguments arguments_;
  std::unique_ptr<offload::Arena> device_, host_;
  std::unique_ptr<trainer::TrainStep> step_;
  data::Batch batch_;
  int64_t number_ = 0;
};

struct Times {
  std::string policy;
  double predicted = 0, measured = 0;
  double error() const { return predicted / measured - 1; }
};

std::vector<Times> measure(const Size& size, const std::string& dtype, int rounds,
                           const offload::Hardware& hardware, Backend& backend) {
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& policy : kPolicies)
    contenders.push_back(std::make_unique<Contender>(config_of(size, dtype, policy), backend));
  std::vector<std::vector<double>> seconds(kPolicies.size());
  for (int round = 0; round <= rounds; ++round)
    for (size_t i = 0; i < contenders.size(); ++i) {
      size_t turn = round % 2 ? i : contenders.size() - 1 - i;
      double now = contenders[turn]->step();
      if (round > 0) seconds[turn].push_back(now);  // the first warms up
    }
  std::vector<Times> times;
  for (size_t i = 0; i < contenders.size(); ++i)
    times.push_back({kPolicies[i], contenders[i]->predicted(hardware), median(seconds[i])});
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
