#include "longshore/trainer/programs/compare/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "longshore/base/distinct.h"
#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/base/printable.h"
#include "longshore/base/refusals.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"
#include "longshore/trainer/config/device_mesh.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/row_images.h"
#include "longshore/trainer/config/yaml.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/programs/compare/energy_meter.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/flops.h"
#include "longshore/trainer/step/learning_rate.h"
#include "longshore/trainer/step/training_session.h"
#include "longshore/trainer/weights/folders_read.h"

namespace longshore::trainer {
namespace {

constexpr int64_t kUntimedSteps = 2;  // at the beginning of each turn

struct Sweep {
  std::string key;
  std::vector<std::string> values;
};

Sweep parse_sweep(const std::string& text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw ConfigError("--sweep: found " + excerpt(text) + ", expected key=a,b,c");
  Sweep sweep{.key = text.substr(0, equals), .values = split(text.substr(equals + 1))};
  if (sweep.key == "remat_policy")
    throw ConfigError("--sweep: found remat_policy, which --policies names");
  return sweep;
}

Workload make_workload(const std::string& name, const std::string& config,
                       const std::vector<std::string>& overrides) {
  Workload workload{
      .name = name,
      .config = load_config_for_policies(config, overrides, default_configs_directory()),
      .loaded = {}};
  require_decoder(workload.config);
  workload.loaded = workload.config = with_devices(with_folders_read(workload.config), 1);
  workload.config.dataset_type = DatasetType::synthetic;
  workload.config.enable_checkpointing = false;
  return workload;
}

void require_profile_of_target(const RunSpec& spec) {
  const std::optional<offload::Hardware>& hardware = spec.hardware();
  const models::Target target = spec.target();
  if (!hardware || models::same_device(hardware->target, target)) return;
  std::vector<std::string> names;
  for (const std::string& name : hardware_names(default_configs_directory()))
    if (models::same_device(read_hardware(name, default_configs_directory()).target, target))
      names.push_back(name);
  throw ConfigError(location(spec.config(), "hardware") + ": found " + hardware->name +
                    ", a profile of another kind of machine than this; expected " +
                    (names.empty() ? "" : "one of " + join(names) + ", or ") +
                    "this_machine, which plan --measure makes");
}

bool is_known(const std::string& policy) {
  return policy == offload::kAuto ||
         std::ranges::count(offload::policies(), policy, &offload::PolicyInfo::name) > 0;
}

Candidate make_candidate(const RunSpec& spec, const std::string& policy) {
  Candidate candidate{.policy = policy, .plan = {}, .obstacle = "", .turns = {}};
  try {
    candidate.plan = plan_chosen_policy(spec.with(with_policy(spec.config(), policy)));
  } catch (const ConfigError& error) {
    if (!is_known(policy)) throw;
    candidate.obstacle = error.what();
  } catch (const PlanError& error) {
    candidate.obstacle = error.what();
  }
  return candidate;
}

using Step = std::vector<data::Batch>;  // a batch for each micro-batch

std::vector<Step> make_steps(const PolicyPlan& plan, int64_t count) {
  const Config& config = plan.config();
  data::BatchSource source = data::synthetic_batches(
      batch_schema(plan.plans.model, {config.per_device_batch_size, config.max_target_length}),
      static_cast<int32_t>(config.model.vocabulary), static_cast<uint64_t>(config.seed), {},
      row_images(config));
  std::vector<Step> steps(count);
  int64_t micro_batch = 0;
  for (Step& step : steps)
    for (int64_t m = 0; m < config.gradient_accumulation_steps; ++m)
      step.push_back(source(micro_batch++));
  return steps;
}

// Steps without finite numbers are not those whose time is asked for: a GPU computes them with less
// power, and so faster.
void require_finite(const StepResult& result, int64_t step) {
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) return;
  throw Error(fmt::format("step {}: loss {}, gradient norm {}, expected finite numbers", step,
                          without_sign_of_nan(result.loss),
                          without_sign_of_nan(result.gradient_norm)));
}

Turn train_a_while(const PolicyPlan& plan, int64_t timed_steps, offload::Backend& backend,
                   EnergyMeter* meter) {
  const Config& config = plan.config();
  const TrainingPlans& plans = plan.plans;
  TrainingSession session(plans, backend, first_values(config, plans, backend.target()));
  LearningRate learning_rate = learning_rate_schedule(config);
  Turn turn;
  if (meter) turn.joules = 0;
  for (const Step& step : make_steps(plan, kUntimedSteps + timed_steps)) {
    int64_t number = std::ssize(turn.steps);
    double joules = meter ? meter->joules() : 0;
    auto start = std::chrono::steady_clock::now();
    turn.steps.push_back(session.step().run(
        step, {.learning_rate = learning_rate.at(number), .number = number + 1}, session.ledger()));
    double seconds = seconds_since(start);
    require_finite(turn.steps.back(), number);
    turn.used_device_bytes = std::max(turn.used_device_bytes, backend.used_device_bytes());
    if (number < kUntimedSteps) continue;
    turn.seconds.push_back(seconds);
    if (meter) *turn.joules += meter->joules() - joules;
  }
  turn.memory = session.memory();
  return turn;
}

}  // namespace

std::vector<Workload> make_workloads(const std::vector<std::string>& configs,
                                     const std::string& sweep,
                                     std::span<const std::string> overrides) {
  std::vector<Workload> workloads;
  std::vector<std::string> names;
  auto add = [&](const std::string& name, const std::string& config,
                 const std::vector<std::string>& all_overrides) {
    workloads.push_back(make_workload(name, config, all_overrides));
    names.push_back(name);
  };
  const std::vector<std::string> given(overrides.begin(), overrides.end());
  for (const std::string& config : configs) {
    if (sweep.empty()) {
      add(config, config, given);
      continue;
    }
    Sweep swept = parse_sweep(sweep);
    for (const std::string& value : swept.values) {
      std::vector<std::string> one = given;
      one.push_back(swept.key + "=" + value);
      add((configs.size() > 1 ? config + " " : "") + one.back(), config, one);
    }
  }
  require_distinct(names, "--config, --sweep");
  return workloads;
}

bool is_measured(const Comparison& comparison) {
  return !std::ranges::all_of(comparison.candidates, &std::vector<Turn>::empty, &Candidate::turns);
}

Comparison plan_comparison(const Workload& workload, const std::vector<std::string>& policies) {
  const Config& config = workload.config;
  std::vector<std::string> names = policy_names(config, policies);
  require_remat_keys_read(config, names);
  Comparison comparison{.workload = workload, .backend = choose_backend(config), .candidates = {}};
  models::Target target = comparison.backend.target;
  require_dtype(config, target);
  const RunSpec spec(config, target);
  require_profile_of_target(spec);
  for (const std::string& name : names) comparison.candidates.push_back(make_candidate(spec, name));
  comparison.tokens = static_cast<double>(tokens_per_step(config));
  comparison.flops = training_flops(make_model(config, target), config.gradient_accumulation_steps);
  return comparison;
}

void interleave(std::vector<Candidate>& candidates, const Amount& amount, const TakeTurn& take_turn,
                const Log& log) {
  std::vector<Candidate*> taking_part;
  for (Candidate& candidate : candidates)
    if (candidate.obstacle.empty()) taking_part.push_back(&candidate);
  const auto [steps, rounds] = Amount{amount.steps, std::min(amount.steps, amount.rounds)};
  for (int64_t round = 0; round < rounds; ++round) {
    TurnRequest request{.round = round + 1,
                        .rounds = rounds,
                        .timed_steps = steps / rounds + (round < steps % rounds ? 1 : 0)};
    for (size_t i = 0; i < taking_part.size(); ++i) {
      Candidate& candidate = *taking_part[(i + round) % taking_part.size()];
      if (!candidate.failure.empty()) continue;
      std::string how;
      try {
        candidate.turns.push_back(take_turn(candidate, request));
        how = fmt::format("{:.4f} s", fmt::join(candidate.turns.back().seconds, ", "));
      } catch (const std::exception& error) {
        candidate.failure = refusal_text(error);
        candidate.failure_code = code_of(error);
        how = "failed: " + candidate.failure;
      }
      log(fmt::format("round {} of {}, {}: {}", request.round, rounds, candidate.policy, how));
    }
  }
}

void measure(Comparison& comparison, const Amount& amount, const Log& log) {
  const Config& config = comparison.workload.config;
  models::Target target = comparison.backend.target;
  std::unique_ptr<offload::Backend> backend = make_backend(target);
  for (Candidate& candidate : comparison.candidates)
    if (candidate.plan)
      if (std::string missing =
              shortage(candidate.plan->memory, *backend, memory_limits(candidate.plan->config()));
          !missing.empty())
        candidate.obstacle = "does not fit on this machine:\n" +
                             missing.substr(0, missing.find_last_not_of('\n') + 1);
  for (const Candidate& candidate : comparison.candidates)
    if (!candidate.obstacle.empty())
      log(fmt::format("{}: {} is left out: {}", comparison.workload.shown_name(), candidate.policy,
                      candidate.obstacle));
  models::Dtype dtype = compute_dtype(config, target);
  std::unique_ptr<EnergyMeter> meter = find_energy_meter(target);
  interleave(
      comparison.candidates, amount,
      [&](const Candidate& candidate, const TurnRequest& request) {
        // Measured before each turn, so that one slow moment does not decide.
        Peak peak = find_peak(config, dtype, *backend);
        if (peak.flops_per_second > comparison.peak.flops_per_second) comparison.peak = peak;
        return train_a_while(*candidate.plan, request.timed_steps, *backend, meter.get());
      },
      [&](const std::string& line) { log(comparison.workload.shown_name() + ": " + line); });
}

}  // namespace longshore::trainer
