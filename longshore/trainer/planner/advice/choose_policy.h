// The policy that a config is planned under: its own, or the one that `auto` chooses.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/planner/auto/auto_policy.h"
#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {

// The choice of search_policy(). Throws PlanError if nothing fits, which names the smallest plan,
// what it lacks and what would help.
AutoChoice choose_policy(const RunSpec& spec);

struct ChosenPolicy {
  RunSpec spec;
  std::string account;  // of the choices; "" if there was none to make
};

// The run with the policy that was chosen, if it is `auto`, and with as many layers on the device
// as then fit, if parameter_layers_on_device is. Throws as choose_policy() does.
ChosenPolicy with_chosen_policy(const RunSpec& spec);

// Plans the run under its policy or the chosen one. Throws as plan_policy() and choose_policy() do.
PolicyPlan plan_chosen_policy(const RunSpec& asked);

// The config's own policy if `names` is empty, every policy except `custom` if it is {"all"}, else
// `names`, of which each may stand there once.
std::vector<std::string> policy_names(const Config& config, const std::vector<std::string>& names);

// A plan for each of policy_names(). If `names` is {"all"}, policies that do not suit the model are
// left out. `changed` gets the run under each policy and says what to plan in its place. Throws
// ConfigError as plan_chosen_policy() does.
std::vector<PolicyPlan> plan_policies(
    const RunSpec& spec, const std::vector<std::string>& names,
    const std::function<RunSpec(const RunSpec&)>& changed = [](const RunSpec& one) { return one; });

}  // namespace longshore::trainer
