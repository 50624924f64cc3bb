// bench_step [--size S|M|E] [--dtype float32|bfloat16] [--policies a,b] [--rounds N] [--share]
//
// Whole training steps of a Llama, or of a mixture of experts (E): forward, backward, clip, AdamW.
// All policies of a dtype train in turns; of each: the median step, tokens a second, what of the
// best matmul rate the step reaches, and peak memory. The rate is taken in the same turns. FLOPs
// are those of products and attention as they run, so what a policy computes again counts. --share:
// by op, the share of kernel time.
//
// bench_step --serve FOLDER takes one policy and writes its initial weights and batch to FOLDER,
// for others to train on the same. It says "started" before it takes memory and "ready" when it
// has; then it makes a step for each line that it reads, and answers with "SECONDS LOSS".
// tests/bench/peers.py talks to it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/base/timing.h"
#include "longshore/trainer/calibration/peak.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/weights/export_parameters.h"
#include "tests/bench/contender.h"

namespace longshore::bench {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, Size> kSizes{
    {"S", {.width = 512, .layers = 8, .length = 512, .batch = 4, .ffn = 1536}},
    {"M", {.width = 1024, .layers = 8, .length = 1024, .batch = 2, .vocabulary = 16384}},
    {"E", {.width = 512, .layers = 4, .length = 512, .batch = 4, .ffn = 1536, .experts = 8}},
};

trainer::Config config_of(const std::string& size, const std::string& dtype,
                          const std::string& policy) {
  return llama(
      kSizes.at(size), dtype,
      {"remat_policy=" + policy, "gradient_clipping_threshold=1", "adam_weight_decay=0.1"});
}

// Of products and attention in one step, computed again or not.
double executed_flops(const trainer::StepPlans& step) {
  double flops = 0;
  for (const offload::PlanRuns& runs : step.runs())
    for (const offload::Instruction& instruction : runs.plan->instructions) {
      if (!instruction.op || instruction.op->op_class == models::OpClass::memory) continue;
      std::vector<models::Type> in, out;
      for (const offload::Operand& operand : instruction.in) in.push_back(operand.type);
      for (const offload::Operand& operand : instruction.out) out.push_back(operand.type);
      flops +=
          static_cast<double>(runs.times) * instruction.op->cost(instruction.attrs, in, out).flops;
    }
  return flops;
}

void print_share(Contender& contender) {
  std::vector<std::pair<double, std::string>> ops;
  double total = 0;
  for (const auto& [by, time] : seconds_by_op(contender.record())) {
    if (by.first != offload::Lane::compute) continue;
    ops.push_back({time, by.second});
    total += time;
  }
  std::ranges::sort(ops, std::greater());
  for (const auto& [time, op] : ops)
    if (time > 0.002 * total)
      std::printf("    %-38s %8.4f s %5.1f %%\n", op.c_str(), time, 100 * time / total);
}

void measure(const std::string& size, const std::string& dtype,
             const std::vector<std::string>& policies, int rounds, bool share) {
  const std::unique_ptr<offload::Backend> backend = trainer::make_backend(models::Target::cpu);
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& policy : policies)
    contenders.push_back(std::make_unique<Contender>(config_of(size, dtype, policy), *backend));
  const trainer::Config config = config_of(size, dtype, policies[0]);
  std::vector<double> flops, rates;
  for (const auto& contender : contenders) flops.push_back(executed_flops(contender->plans().step));
  std::vector<std::vector<double>> seconds(policies.size()), fractions(policies.size());
  for (int round = 0; round <= rounds; ++round) {
    const double rate = find_peak(config, decoder_config(config, backend->target()).dtype, *backend)
                            .flops_per_second;
    for (size_t i = 0; i < contenders.size(); ++i) {
      const double step = contenders[i]->step();
      if (round == 0) continue;
      seconds[i].push_back(step);
      fractions[i].push_back(flops[i] / step / rate);
    }
    if (round > 0) rates.push_back(rate);
  }
  std::printf("%s, %s: the best matmul rate here is %.0f GFLOP/s\n", size.c_str(), dtype.c_str(),
              median(rates) / 1e9);
  std::printf("  %-20s %9s %10s %9s %10s %12s\n", "policy", "step, s", "tokens/s", "of rate",
              "GFLOP", "peak, MiB");
  for (size_t i = 0; i < contenders.size(); ++i) {
    const Size& s = kSizes.at(size);
    std::printf(
        "  %-20s %9.4f %10.0f %8.1f%% %10.1f %12.1f\n", policies[i].c_str(), median(seconds[i]),
        static_cast<double>(s.batch * s.length) / median(seconds[i]), 100 * median(fractions[i]),
        flops[i] / 1e9,
        static_cast<double>(trainer::total_peak_bytes(analyze(contenders[i]->plans()))) / 1048576);
    if (share) print_share(*contenders[i]);
  }
}

void write_start(Contender& contender, const trainer::Config& config, const fs::path& folder) {
  const models::DecoderConfig model = decoder_config(config, models::Target::cpu);
  fs::create_directories(folder);
  trainer::export_parameters(
      folder / "model",
      {.model = model, .layout = contender.plans().layout, .arguments = contender.arguments()},
      models::Dtype::float32);
  auto rows = [](const std::vector<int32_t>& tokens, int64_t length) {
    std::string text;
    for (size_t i = 0; i < tokens.size(); ++i)
      text += std::to_string(tokens[i]) + (static_cast<int64_t>(i + 1) % length == 0 ? "\n" : " ");
    return text;
  };
  const data::Batch& batch = contender.batch();
  write_file(folder / "tokens", rows(batch["tokens"], config.max_target_length));
  write_file(folder / "targets", rows(batch["targets"], config.max_target_length));
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void serve(const trainer::Config& config, const fs::path& folder) {
  say("started");
  const std::unique_ptr<offload::Backend> backend = trainer::make_backend(models::Target::cpu);
  Contender contender(config, *backend);
  write_start(contender, config, folder);
  say("ready");
  for (std::string line; std::getline(std::cin, line);) {
    const double seconds = contender.step();
    say(fmt::format("{:.6f} {:.6f}", seconds, contender.loss()));
  }
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Times whole training steps.", "bench_step");
  std::vector<std::string> sizes{"S", "M"}, dtypes{"float32", "bfloat16"},
      policies{"none", "full", "save_qkv_proj", "qkv_proj_offloaded"};
  int rounds = 5;
  bool share = false;
  std::string folder;
  app.add_option("--size", sizes, "of the model")
      ->delimiter(',')
      ->check(CLI::IsMember({"S", "M", "E"}))
      ->capture_default_str();
  app.add_option("--dtype", dtypes, "to compute in")
      ->delimiter(',')
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--policies", policies, "remat policies")->delimiter(',')->capture_default_str();
  CLI::Option* of_rounds =
      app.add_option("--rounds", rounds, "steps of each policy, after one that does not count");
  of_rounds->check(CLI::PositiveNumber)->capture_default_str();
  CLI::Option* with_share = app.add_flag("--share", share, "the share of each op as well");
  app.add_option("--serve", folder, "write weights and batch there, and step when told to")
      ->excludes(of_rounds, with_share);
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_step", [&] {
    if (!folder.empty() && sizes.size() * dtypes.size() * policies.size() > 1)
      throw ConfigError("--serve takes one --size, one --dtype and one of --policies");
    if (!folder.empty())
      return bench::serve(bench::config_of(sizes[0], dtypes[0], policies[0]), folder);
    for (const std::string& size : sizes)
      for (const std::string& dtype : dtypes) bench::measure(size, dtype, policies, rounds, share);
  });
}
