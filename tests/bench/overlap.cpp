// bench_overlap [--config F] [--policies a,b] [--rounds N] [--hardware NAME] [--json F]
//               [key=value ...]
//
// How well a training step hides its transfers: its time over that of the same step without them,
// the two in turns. For a remat policy the other step keeps on the device what this one offloads
// and computes the same; for parameters, gradients and moments in host memory it has all three on
// the device. Tokens are synthetic, whatever the config names.
//
// Beside it what plans say of that ratio, with --hardware; and of recorded steps how long kernels,
// copies and the host's updates were busy, how much of the copies ran behind kernels, and what they
// moved.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/program.h"
#include "longshore/data/rows/batches.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/advice/memory_suggestions.h"
#include "longshore/trainer/planner/advice/plan_report.h"
#include "longshore/trainer/step/estimate.h"
#include "longshore/trainer/step/step.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/bench/interleaved.h"

namespace longshore::bench {
namespace {

using offload::Backend;
using offload::Lane;
using trainer::Config;
using trainer::TrainingPlans;

constexpr int kRecords = 3;

struct Request {
  std::string config = "quickstart.yml", hardware, json;
  std::vector<std::string> policies{"qkv_proj_offloaded", "minimal_offloaded"}, overrides;
  int rounds = 15;
};

// What one recorded step did.
struct Profile {
  offload::Overlap overlap;
  double host_seconds = 0;  // of kernels on Lane::host_compute
  int64_t moved_bytes = 0;
};

Profile profile(const std::vector<offload::Event>& events) {
  Profile p{.overlap = offload::overlap(events)};
  for (const offload::Event& event : events) {
    p.moved_bytes += event.bytes;
    if (event.lane == Lane::host_compute) p.host_seconds += event.span.end - event.span.begin;
  }
  return p;
}

// Steps of several plans that take turns on the same parameters, moments and arenas.
class Steps {
 public:
  // Throws PlanError where one of the plans does not fit, and OutOfMemoryError where memory is
  // refused all the same.
  Steps(const Config& config, std::vector<TrainingPlans> plans, Backend& backend)
      : plans_(std::move(plans)), arguments_(backend, ledger_) {
    std::vector<const offload::Plan*> all;
    for (const TrainingPlans& p : plans_) {
      if (std::string why = explain_out_of_memory({config, backend.target()}, p, backend);
          !why.empty())
        throw PlanError(why);
      for (const offload::Plan* plan : p.all()) all.push_back(plan);
    }
    arenas_.emplace(backend, all);
    trainer::initialize(plans_[0].layout, static_cast<uint64_t>(config.seed), arguments_);
    for (const TrainingPlans& p : plans_)
      steps_.push_back(std::make_unique<trainer::TrainStep>(p.step, backend, arguments_, *arenas_));
    data::BatchSource source = data::synthetic_batches(
        {config.per_device_batch_size, config.max_target_length},
        static_cast<int32_t>(config.model.vocabulary), static_cast<uint64_t>(config.seed));
    for (int64_t m = 0; m < config.gradient_accumulation_steps; ++m) batches_.push_back(source(m));
  }

  void run(size_t plan) {
    steps_[plan]->run(batches_, next(), ledger_);
    // Another plan's step takes over the arenas.
    if (steps_.size() > 1) steps_[plan]->flush(ledger_);
  }

  // Of several recorded steps the one of median length.
  Profile record(size_t plan) {
    std::vector<Profile> profiles;
    for (int i = 0; i < kRecords; ++i) {
      std::vector<offload::Event> events;
      steps_[plan]->record(batches_, next(), ledger_, events);
      if (steps_.size() > 1) steps_[plan]->flush(ledger_);
      profiles.push_back(profile(events));
    }
    std::sort(profiles.begin(), profiles.end(),
              [](const Profile& a, const Profile& b) { return a.overlap.total < b.overlap.total; });
    return profiles[kRecords / 2];
  }

 private:
  trainer::StepScalars next() { return {.learning_rate = 1e-4, .number = ++number_}; }

  std::vector<TrainingPlans> plans_;
  offload::Ledger ledger_;
  offload::Arguments arguments_;
  std::optional<offload::Arenas> arenas_;
  std::vector<std::unique_ptr<trainer::TrainStep>> steps_;
  std::vector<data::Batch> batches_;
  int64_t number_ = 0;
};

constexpr const char* kHeading =
    "                            step s  without  ratio     +-  planned  kernels   copies  hidden"
    "  on host   moved MiB\n";

struct Row {
  Comparison measured;
  std::optional<double> planned;  // ratio
  Profile profile;

  std::string text() const {
    const offload::Overlap& overlap = profile.overlap;
    const std::string hidden =
        overlap.copying > 0 ? fmt::format("{:.0f} %", 100 * overlap.hidden / overlap.copying) : "-";
    return fmt::format(
        "{:8.4f} {:8.4f} {:6.3f} {:6.3f} {:>8} {:8.4f} {:8.4f} {:>7} {:8.4f} {:11.1f}",
        measured.first_seconds, measured.second_seconds, measured.ratio, measured.ratio_spread,
        planned ? fmt::format("{:.3f}", *planned) : "-", overlap.computing, overlap.copying, hidden,
        profile.host_seconds, profile.moved_bytes / 1048576.0);
  }

  nlohmann::json json() const {
    nlohmann::json row{{"step_seconds", measured.first_seconds},
                       {"without_seconds", measured.second_seconds},
                       {"ratio", measured.ratio},
                       {"ratio_spread", measured.ratio_spread},
                       {"computing_seconds", profile.overlap.computing},
                       {"copying_seconds", profile.overlap.copying},
                       {"hidden_seconds", profile.overlap.hidden},
                       {"host_seconds", profile.host_seconds},
                       {"moved_bytes", profile.moved_bytes}};
    if (planned) row["planned_ratio"] = *planned;
    return row;
  }
};

class Benchmark {
 public:
  Benchmark(const Request& request, Config config)
      : request_(request),
        config_(std::move(config)),
        hardware_(request.hardware.empty()
                      ? std::nullopt
                      : std::optional(trainer::read_hardware(
                            request.hardware, trainer::default_configs_directory()))) {
    if (config_.model.family != &models::kLlama)
      throw ConfigError(location(config_, "model_type") + ": found a toy, expected llama");
    config_.dataset_type = trainer::DatasetType::synthetic;
    trainer::ChosenBackend chosen = choose_backend(config_);
    backend_ = trainer::make_backend(chosen.target);
    TrainingPlans plans = trainer::plan_training({config_, backend_->target()});
    std::printf("backend: %s\n", chosen.description.c_str());
    std::printf("config: %s, %.1f M parameters, %s, %lld micro-batches of %lld x %lld tokens\n",
                config_.config_file.c_str(), count_parameters(plans.model).all / 1e6,
                name(decoder_config(config_, backend_->target()).dtype),
                static_cast<long long>(config_.gradient_accumulation_steps),
                static_cast<long long>(config_.per_device_batch_size),
                static_cast<long long>(config_.max_target_length));
    std::printf(
        "medians of %d interleaved steps; ratio: 1 hides all transfers; +-: between its "
        "quartiles\n",
        request_.rounds);
  }

  void policies() {
    std::printf("\nremat policies, without: what they offload stays on the device\n%s", kHeading);
    for (const std::string& name : request_.policies) {
      TrainingPlans offloading =
          std::move(trainer::plan_policies({config_, backend_->target()}, {name})[0].plans);
      if (!offloading.options.policy.offloads())
        throw ConfigError("--policies: '" + name + "' offloads nothing");
      TrainingPlans kept = offloading;
      kept.options.policy = kept.options.policy.all.first.kept_on_device();
      kept.step = plan_step(kept.model, kept.layout, kept.options, backend_->target());
      line(name, [&] {
        const std::optional<double> planned = planned_ratio(offloading, kept);
        Steps steps(config_, {std::move(offloading), std::move(kept)}, *backend_);
        return measure(steps, 0, steps, 1, planned);
      });
    }
  }

  void homes() {
    std::printf("\nhost memory with remat_policy %s, without: all on the device\n%s",
                config_.remat_policy.c_str(), kHeading);
    constexpr auto kDevice = trainer::OptimizerCompute::device,
                   kHost = trainer::OptimizerCompute::host;
    const TrainingPlans all_on_device = plans_of({});
    std::unique_ptr<Steps> on_device;
    for (const auto& [label, homes] : std::vector<std::pair<std::string, Homes>>{
             {"parameters", {true, false, false, kDevice}},
             {"gradients", {false, true, false, kDevice}},
             {"optimizer", {false, false, true, kDevice}},
             {"optimizer, updated there", {false, false, true, kHost}},
             {"all three", {true, true, true, kDevice}},
             {"all three, updated there", {true, true, true, kHost}}})
      line(label, [&, &homes = homes] {
        const std::optional<double> planned = planned_ratio(plans_of(homes), all_on_device);
        if (!on_device) on_device = ready({});
        std::unique_ptr<Steps> on_host = ready(homes);
        return measure(*on_host, 0, *on_device, 0, planned);
      });
  }

 private:
  // What lives in host memory, and which lane updates it.
  struct Homes {
    bool parameters = false, gradients = false, optimizer = false;
    trainer::OptimizerCompute update = trainer::OptimizerCompute::device;
  };

  Config config_of(const Homes& homes) const {
    Config config = config_;
    config.parameter_memory_host_offload = homes.parameters;
    config.gradient_memory_host_offload = homes.gradients;
    config.optimizer_memory_host_offload = homes.optimizer;
    config.optimizer_compute = homes.update;
    validate(config);
    return config;
  }
  TrainingPlans plans_of(const Homes& homes) const {
    return trainer::plan_training({config_of(homes), backend_->target()});
  }
  std::unique_ptr<Steps> ready(const Homes& homes) {
    std::vector<TrainingPlans> plans;
    plans.push_back(plans_of(homes));
    return std::make_unique<Steps>(config_of(homes), std::move(plans), *backend_);
  }

  std::optional<double> planned_ratio(const TrainingPlans& with,
                                      const TrainingPlans& without) const {
    if (!hardware_) return std::nullopt;
    return estimate(with.step, *hardware_).step_seconds /
           estimate(without.step, *hardware_).step_seconds;
  }

  Row measure(Steps& with, size_t plan_with, Steps& without, size_t plan_without,
              std::optional<double> planned) const {
    Comparison comparison =
        compare([&] { with.run(plan_with); }, [&] { without.run(plan_without); }, request_.rounds);
    return {comparison, planned, with.record(plan_with)};
  }

  template <class MakeRow>
  void line(const std::string& label, MakeRow make_row) {
    std::printf("%-26s", label.c_str());
    std::fflush(stdout);
    nlohmann::json said{{"what", label}};
    auto leave_out = [&](const Error& error) {
      std::printf("  left out: %s\n", error.what());
      said["left_out"] = error.what();
    };
    try {
      const Row row = make_row();
      std::printf("%s\n", row.text().c_str());
      said.update(row.json());
    } catch (const PlanError& error) {
      leave_out(error);
    } catch (const OutOfMemoryError& error) {
      leave_out(error);
    }
    rows_.push_back(said);
    // Each time: what takes long may be stopped before its end.
    if (!request_.json.empty())
      write_file(request_.json, nlohmann::json{{"rows", rows_}}.dump(1) + "\n");
  }

  const Request& request_;
  Config config_;
  std::optional<offload::Hardware> hardware_;
  nlohmann::json rows_ = nlohmann::json::array();
  std::unique_ptr<Backend> backend_;
};

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Measures how well training steps hide their transfers.", "bench_overlap");
  bench::Request request;
  app.add_option("--config", request.config, "a path, or the name of a file in configs/")
      ->capture_default_str();
  app.add_option("--policies", request.policies, "remat policies that offload, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--rounds", request.rounds, "steps of each kind")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--hardware", request.hardware,
                 "a profile of configs/hardware, or a file: planned ratios beside the measured");
  app.add_option("--json", request.json, "a file to write the rows to");
  app.add_option("key=value", request.overrides, "config keys, above what the file says");
  return run_program(app, argc, argv, [&] {
    bench::Benchmark benchmark(request, trainer::load_config(request.config, request.overrides,
                                                             trainer::default_configs_directory()));
    benchmark.policies();
    benchmark.homes();
  });
}
