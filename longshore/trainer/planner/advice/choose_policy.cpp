#include "longshore/trainer/planner/advice/choose_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "longshore/base/distinct.h"
#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/trainer/planner/advice/layers_on_device.h"
#include "longshore/trainer/planner/advice/memory_suggestions.h"
#include "longshore/trainer/planner/auto/auto_account.h"
#include "longshore/trainer/planner/auto/auto_search_space.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

const std::vector<std::string> kAllPolicies{"all"};

[[noreturn]] void refuse(const PolicySearch& search, const RunSpec& spec) {
  const Config& config = search.config;
  const SimulatedPlan& least = *std::ranges::min_element(
      search.plans, {}, [](const SimulatedPlan& one) { return missing_bytes(one.room); });
  throw PlanError(fmt::format(
      "{}: remat_policy auto: of {} none fits {}. The smallest ({}) takes device {}, host "
      "{}; fits: {}. Besides, with\n{}",
      config.config_file, plural(std::ssize(search.plans), "plan"), spec.hardware()->name,
      summary(least.config), bytes_text(least.memory[MemoryKind::device].peak_bytes),
      bytes_text(host_peak_bytes(least.memory)), fits_text(least.room),
      memory_suggestions(spec.with(least.config), searched_keys(config))));
}

}  // namespace

AutoChoice choose_policy(const RunSpec& spec) {
  PolicySearch search = search_policy(spec);
  if (!search.choice) refuse(search, spec);
  return std::move(*search.choice);
}

namespace {

ChosenPolicy with_policy_alone(const RunSpec& spec) {
  if (spec.config().remat_policy != offload::kAuto) return {.spec = spec, .account = ""};
  const AutoChoice choice = choose_policy(spec);
  return {.spec = spec.with(choice.chosen().config), .account = text(choice)};
}

ChosenPolicy with_layers(ChosenPolicy chosen) {
  chosen.spec = with_layers_on_device(chosen.spec);
  return chosen;
}

// The policy may fill the device first, or the layers that fit under the policy `full`.
ChosenPolicy with_policy_and_layers(const RunSpec& spec) {
  const ChosenPolicy policy_first = with_layers(with_policy_alone(spec));
  const Config under_full =
      with_layers_on_device(spec.with(named_config(spec.config(), offload::kFull))).config();
  const RunSpec given = spec.changed([&](Config& config) {
    config.parameter_layers_on_device = under_full.parameter_layers_on_device;
    config.parameter_memory_host_offload = under_full.parameter_memory_host_offload;
    for (const char* key : {"parameter_layers_on_device", "parameter_memory_host_offload"})
      if (const auto origin = under_full.origins.find(key); origin != under_full.origins.end())
        config.origins[key] = origin->second;
  });
  if (!may_fit(given)) return policy_first;
  const ChosenPolicy layers_first = with_policy_alone(given);
  const bool is_better_first =
      is_better(simulated_plan(layers_first.spec), simulated_plan(policy_first.spec));
  return is_better_first ? layers_first : policy_first;
}

}  // namespace

ChosenPolicy with_chosen_policy(const RunSpec& spec) {
  const Config& config = spec.config();
  const bool is_policy_chosen = config.remat_policy == offload::kAuto,
             are_layers_chosen = !config.parameter_layers_on_device;
  ChosenPolicy chosen = is_policy_chosen && are_layers_chosen
                            ? with_policy_and_layers(spec)
                            : with_layers(with_policy_alone(spec));
  if (const std::string layers = layers_text(chosen.spec); !layers.empty())
    chosen.account += layers + "\n";
  return chosen;
}

PolicyPlan plan_chosen_policy(const RunSpec& asked) {
  auto [spec, account] = with_chosen_policy(asked);
  PolicyPlan plan = plan_policy(spec);
  plan.policy = asked.config().remat_policy;
  plan.asked = asked.config();
  plan.account = std::move(account);
  return plan;
}

std::vector<std::string> policy_names(const Config& config, const std::vector<std::string>& names) {
  if (names.empty()) return {config.remat_policy};
  require_distinct(names, "--policies");
  if (names != kAllPolicies) return names;
  std::vector<std::string> all;
  for (const offload::PolicyInfo& info : offload::policies())
    if (info.name != offload::kCustom) all.push_back(info.name);
  return all;
}

std::vector<PolicyPlan> plan_policies(const RunSpec& spec, const std::vector<std::string>& names,
                                      const std::function<RunSpec(const RunSpec&)>& changed) {
  std::vector<std::string> policies = policy_names(spec.config(), names);
  require_remat_keys_read(spec.config(), policies);
  std::vector<PolicyPlan> plans;
  std::string obstacle;
  for (const std::string& name : policies) {
    try {
      const RunSpec one = spec.with(with_policy(spec.config(), name));
      plans.push_back(plan_chosen_policy(changed(one)));
    } catch (const ConfigError& error) {
      if (names != kAllPolicies) throw;  // else policies that do not suit the model are skipped
      obstacle = error.what();
    }
  }
  if (plans.empty()) throw ConfigError("no policy suits: " + obstacle);
  return plans;
}

}  // namespace longshore::trainer
