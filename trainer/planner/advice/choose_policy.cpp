#include "trainer/planner/advice/choose_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/distinct.h"
#include "base/error.h"
#include "base/text.h"
#include "trainer/config/named_hardware.h"
#include "trainer/planner/advice/memory_suggestions.h"
#include "trainer/planner/auto/auto_account.h"
#include "trainer/planner/auto/auto_search_space.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::Hardware;
using offload::MemoryKind;

const std::vector<std::string> kAllPolicies{"all"};

[[noreturn]] void refuse(const PolicySearch& search, const Hardware& hardware) {
  const Config& config = search.config;
  const SimulatedPlan& least = *std::ranges::min_element(
      search.plans, {}, [](const SimulatedPlan& one) { return missing_bytes(one.room); });
  throw PlanError(fmt::format(
      "{}: remat_policy auto: of {} none fits {}. The smallest ({}) takes device {}, host "
      "{}; fits: {}. Besides, with\n{}",
      config.config_file, plural(std::ssize(search.plans), "plan"), hardware.name,
      summary(least.config), bytes_text(least.memory[MemoryKind::device].peak_bytes),
      bytes_text(host_peak_bytes(least.memory)), fits_text(least.room),
      memory_suggestions(least.config, hardware, searched_keys(config))));
}

}  // namespace

AutoChoice choose_policy(const Config& config, models::Target target) {
  PolicySearch search = search_policy(config, target);
  if (!search.choice) refuse(search, *named_hardware(config));
  return std::move(*search.choice);
}

ChosenPolicy with_chosen_policy(const Config& config, models::Target target) {
  if (config.remat_policy != offload::kAuto) return {.config = config, .account = ""};
  const AutoChoice choice = choose_policy(config, target);
  return {.config = choice.chosen().config, .account = text(choice)};
}

PolicyPlan plan_chosen_policy(const Config& asked, models::Target target,
                              const std::optional<offload::Hardware>& hardware) {
  auto [config, account] = with_chosen_policy(asked, target);
  PolicyPlan plan = plan_policy(config, target, hardware);
  plan.policy = asked.remat_policy;
  plan.asked = asked;
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

std::vector<PolicyPlan> plan_policies(const Config& config, const std::vector<std::string>& names,
                                      models::Target target,
                                      const std::function<Config(const Config&)>& changed) {
  std::vector<std::string> policies = policy_names(config, names);
  require_remat_keys_read(config, policies);
  std::vector<PolicyPlan> plans;
  std::string obstacle;
  for (const std::string& name : policies) {
    try {
      const Config one = changed(with_policy(config, name));
      plans.push_back(plan_chosen_policy(one, target, named_hardware(one)));
    } catch (const ConfigError& error) {
      if (names != kAllPolicies) throw;  // else policies that do not suit the model are skipped
      obstacle = error.what();
    }
  }
  if (plans.empty()) throw ConfigError("no policy suits: " + obstacle);
  return plans;
}

}  // namespace longshore::trainer
