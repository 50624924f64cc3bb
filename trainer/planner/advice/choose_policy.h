// The policy that a config is planned under: its own, or the one that `auto` chooses.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/planner/auto/auto_policy.h"
#include "trainer/planner/policy_plan.h"

namespace longshore::trainer {

// The choice of search_policy(). Throws PlanError if nothing fits, which names the smallest plan,
// what it lacks and what would help.
AutoChoice choose_policy(const Config& config, models::Target target);

struct ChosenPolicy {
  Config config;
  std::string account;  // text() of the choice; "" if there was none to make
};

// If the policy of `config` is `auto`, the config that was chosen, otherwise `config`. Throws as
// choose_policy() does.
ChosenPolicy with_chosen_policy(const Config& config, models::Target target);

// Plans the config under its policy or the chosen one. Throws as plan_policy() and choose_policy()
// do.
PolicyPlan plan_chosen_policy(const Config& asked, models::Target target,
                              const std::optional<offload::Hardware>& hardware);

// The config's own policy if `names` is empty, every policy except `custom` if it is {"all"}, else
// `names`, of which each may stand there once.
std::vector<std::string> policy_names(const Config& config, const std::vector<std::string>& names);

// A plan for each of policy_names(). If `names` is {"all"}, policies that do not suit the model are
// left out. `changed` gets the config under each policy and says what to plan in its place. Throws
// ConfigError as plan_chosen_policy() does.
std::vector<PolicyPlan> plan_policies(
    const Config& config, const std::vector<std::string>& names, models::Target target,
    const std::function<Config(const Config&)>& changed = [](const Config& one) { return one; });

}  // namespace longshore::trainer
