#include "longshore/trainer/planner/auto/auto_policy.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "longshore/base/error.h"
#include "longshore/trainer/planner/auto/auto_search.h"
#include "longshore/trainer/planner/auto/auto_search_space.h"
#include "longshore/trainer/step/prefetch.h"

namespace longshore::trainer {
namespace {

// Sorts the plans, the best first. Removes duplicates and those that cannot be planned. Throws
// ConfigError if none can.
std::vector<SimulatedPlan> in_order(std::vector<SimulatedPlan> plans) {
  if (std::ranges::all_of(plans, &SimulatedPlan::is_refused))
    throw ConfigError(plans.at(0).refusal);
  std::erase_if(plans, [](const SimulatedPlan& one) { return one.is_refused(); });
  std::ranges::stable_sort(plans, is_better);
  auto is_same = [](const SimulatedPlan& a, const SimulatedPlan& b) {
    return a.step_seconds == b.step_seconds && chosen_keys(a.config) == chosen_keys(b.config);
  };
  plans.erase(std::unique(plans.begin(), plans.end(), is_same), plans.end());
  return plans;
}

// Among the plans that are as fast as the fastest, chooses one that moves the least; among those a
// named policy, since its config is shorter; among those the one with the smallest peaks. Returns
// nothing if no plan fits.
std::optional<AutoChoice> choose_among(std::vector<SimulatedPlan> plans) {
  if (fastest_seconds(plans) == INFINITY) return std::nullopt;
  auto slower = std::ranges::find_if(plans, [&](const SimulatedPlan& one) {
    return !one.fits() || one.step_seconds > plans[0].step_seconds * (1 + kEqualTimeTolerance);
  });
  auto cost = [&](const SimulatedPlan& one) {
    // Rounded to whole percent of what the fastest plan moves, so that batches and results, which
    // every plan moves, do not decide.
    const double moved = std::round(100 * one.moved_bytes / (1 + plans[0].moved_bytes));
    return std::tuple{moved, one.config.remat_policy == offload::kCustom,
                      total_peak_bytes(one.memory)};
  };
  auto choice = std::min_element(plans.begin(), slower,
                                 [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  std::rotate(plans.begin(), choice, choice + 1);
  return AutoChoice{std::move(plans)};
}

PolicySearch outcome_of(const RunSpec& spec) {
  std::vector<SimulatedPlan> plans = in_order(search(spec));
  std::optional<AutoChoice> choice = choose_among(plans);
  return {std::move(choice), spec.config(), std::move(plans)};
}

// Searches with transfers that start as late as possible, so that less device memory is in use at
// once: not ahead of their use at all, or as little ahead as may be faster than that.
PolicySearch outcome_with_late_transfers(const RunSpec& spec) {
  auto outcome_ahead = [&](double layers) {
    return outcome_of(spec.changed([&](Config& config) {
      choose_value(config, "prefetch_layers", &Config::prefetch_layers, layers);
    }));
  };
  PolicySearch outcome = outcome_ahead(0);
  if (!outcome.choice) return outcome;
  PolicySearch other = outcome_ahead(kPrefetchDistances[0]);
  if (other.choice && other.choice->chosen().step_seconds < outcome.choice->chosen().step_seconds)
    return other;
  return outcome;
}

void require_same_device(const RunSpec& spec) {
  if (!models::same_device(spec.hardware()->target, spec.target()))
    throw ConfigError(location(spec.config(), "hardware") + ": found " + spec.hardware()->name +
                      ", a profile of " +
                      (spec.target() == models::Target::cpu
                           ? "a GPU, expected that of a processor"
                           : "a processor, expected that of a GPU") +
                      " for remat_policy: auto (plan --measure makes this machine's)");
}

PolicySearch best_outcome(const RunSpec& spec) {
  PolicySearch outcome = outcome_of(spec);
  if (outcome.choice || is_set(spec.config(), "prefetch_layers")) return outcome;
  return outcome_with_late_transfers(spec);
}

}  // namespace

std::optional<AutoChoice> find_policy(const RunSpec& spec) {
  require_same_device(spec);
  if (!may_fit(spec)) return std::nullopt;
  return best_outcome(spec).choice;
}

std::optional<SimulatedPlan> find_policy_quickly(const RunSpec& spec) {
  require_same_device(spec);
  if (!may_fit(spec)) return std::nullopt;
  std::vector<SimulatedPlan> plans = search(spec, Effort::quick);
  const auto best = std::ranges::min_element(plans, is_better);
  return best != plans.end() && best->fits() ? std::optional(*best) : std::nullopt;
}

PolicySearch search_policy(const RunSpec& spec) {
  require_same_device(spec);
  return best_outcome(spec);
}

std::optional<RunSpec> with_found_policy(const RunSpec& spec) {
  if (spec.config().remat_policy != offload::kAuto) return spec;
  const std::optional<AutoChoice> choice = find_policy(spec);
  return choice ? std::optional(spec.with(choice->chosen().config)) : std::nullopt;
}

}  // namespace longshore::trainer
