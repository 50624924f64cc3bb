#include "trainer/planning/auto_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "trainer/config/named_hardware.h"
#include "trainer/planning/auto_account.h"
#include "trainer/planning/auto_search.h"
#include "trainer/planning/auto_search_space.h"
#include "trainer/planning/what_helps.h"
#include "trainer/step/lookahead.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::Hardware;
using offload::MemoryKind;

// Sorts the plans, the best first. Removes duplicates and those that cannot be planned. Throws
// ConfigError if none can.
std::vector<WalkedPlan> in_order(std::vector<WalkedPlan> plans) {
  if (std::ranges::all_of(plans, &WalkedPlan::is_refused)) throw ConfigError(plans.at(0).refusal);
  std::erase_if(plans, [](const WalkedPlan& one) { return one.is_refused(); });
  std::ranges::stable_sort(plans, is_better);
  auto is_same = [](const WalkedPlan& a, const WalkedPlan& b) {
    return a.step_seconds == b.step_seconds && chosen_keys(a.config) == chosen_keys(b.config);
  };
  plans.erase(std::unique(plans.begin(), plans.end(), is_same), plans.end());
  return plans;
}

// Among the plans that are as fast as the fastest, chooses one that moves the least; among those a
// named policy, since its config is shorter; among those the one with the smallest peaks. Returns
// nothing if no plan fits.
std::optional<AutoChoice> choose_among(std::vector<WalkedPlan> plans) {
  if (fastest_seconds(plans) == INFINITY) return std::nullopt;
  auto slower = std::ranges::find_if(plans, [&](const WalkedPlan& one) {
    return !one.fits() || one.step_seconds > plans[0].step_seconds * (1 + kEqualTimeTolerance);
  });
  auto cost = [&](const WalkedPlan& one) {
    // Rounded to whole percent of what the fastest plan moves, so that batches and results, which
    // every plan moves, do not decide.
    const double moved = std::round(100 * one.moved_bytes / (1 + plans[0].moved_bytes));
    return std::tuple{moved, one.config.remat_policy == "custom", total_peak_bytes(one.memory)};
  };
  auto choice = std::min_element(plans.begin(), slower,
                                 [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  std::rotate(plans.begin(), choice, choice + 1);
  return AutoChoice{std::move(plans)};
}

[[noreturn]] void refuse(const Config& config, const Hardware& hardware,
                         const std::vector<WalkedPlan>& plans) {
  const WalkedPlan& least = *std::ranges::min_element(
      plans, {}, [](const WalkedPlan& one) { return missing_bytes(one.room); });
  throw PlanError(fmt::format(
      "{}: remat_policy auto: of {} none fits {}. The smallest ({}) takes device {}, host "
      "{}; fits: {}. Besides, with\n{}",
      config.config_file, plural(std::ssize(plans), "plan"), hardware.name, summary(least.config),
      bytes_text(least.memory[MemoryKind::device].peak_bytes),
      bytes_text(host_peak_bytes(least.memory)), fits_text(least.room),
      what_helps(least.config, hardware, searched_keys(config))));
}

// Searches with transfers that start as late as possible, so that less device memory is in use at
// once: not ahead of their use at all, or as little ahead as may be faster than that.
AutoChoice choose_with_late_transfers(const Config& config, models::Target target,
                                      const Hardware& hardware) {
  Config none_ahead = config, little_ahead = config;
  choose_value(none_ahead, "prefetch_layers", &Config::prefetch_layers, 0.0);
  choose_value(little_ahead, "prefetch_layers", &Config::prefetch_layers, kLookaheadDepths[0]);
  std::vector<WalkedPlan> plans = in_order(search(none_ahead, target, hardware));
  std::optional<AutoChoice> choice = choose_among(plans);
  if (!choice) refuse(none_ahead, hardware, plans);
  std::optional<AutoChoice> other = choose_among(in_order(search(little_ahead, target, hardware)));
  if (other && other->chosen().step_seconds < choice->chosen().step_seconds) choice = other;
  return std::move(*choice);
}

}  // namespace

AutoChoice choose_policy(const Config& config, models::Target target) {
  const Hardware hardware = *named_hardware(config);
  if (!models::same_device(hardware.target, target))
    throw ConfigError(location(config, "hardware") + ": found " + hardware.name +
                      ", a profile of " +
                      (target == models::Target::cpu ? "a GPU, expected that of a processor"
                                                     : "a processor, expected that of a GPU") +
                      " for remat_policy: auto (plan --measure makes this machine's)");
  const std::vector<WalkedPlan> plans = in_order(search(config, target, hardware));
  if (std::optional<AutoChoice> choice = choose_among(plans)) return std::move(*choice);
  if (is_set(config, "prefetch_layers")) refuse(config, hardware, plans);
  return choose_with_late_transfers(config, target, hardware);
}

ChosenPolicy with_chosen_policy(const Config& config, models::Target target) {
  if (config.remat_policy != offload::kAuto) return {.config = config, .account = ""};
  const AutoChoice choice = choose_policy(config, target);
  return {.config = choice.chosen().config, .account = text(choice)};
}

}  // namespace longshore::trainer
