#include "trainer/planner/policy_plan.h"

#include "base/error.h"
#include "trainer/config/model_config.h"
#include "trainer/config/named_hardware.h"
#include "trainer/config/validate.h"
#include "trainer/planner/auto/auto_policy.h"
#include "trainer/step/flops.h"

namespace longshore::trainer {
namespace {

const std::vector<std::string> kAllPolicies{"all"};

}  // namespace

Config with_policy(Config config, const std::string& policy) {
  if (policy != config.remat_policy) config.origins["remat_policy"] = "--policies";
  config.remat_policy = policy;
  if (policy != "custom" && policy != offload::kAuto) config.label_fates.clear();
  if (policy != offload::kAuto) {
    config.auto_micro_batch = false;
    config.origins.erase("auto_micro_batch");
  }
  validate_remat(config);
  return config;
}

void require_remat_keys_read(Config config, const std::vector<std::string>& policies) {
  for (const std::string& policy : policies) {
    if (policy == "custom" || policy == offload::kAuto) config.label_fates.clear();
    if (policy == offload::kAuto) config.auto_micro_batch = false;
  }
  validate_remat(config);
}

PolicyPlan plan_policy(const Config& asked, models::Target target,
                       const std::optional<offload::Hardware>& hardware) {
  auto [config, account] = with_chosen_policy(asked, target);
  PolicyPlan plan{.policy = asked.remat_policy,
                  .asked = asked,
                  .config = config,
                  .plans = plan_training(config, target),
                  .memory = {}};
  plan.account = std::move(account);
  plan.memory = analyze(plan.plans);
  if (!hardware) return plan;
  plan.source = hardware->source;
  plan.estimate = estimate(plan.plans.step, *hardware);
  plan.used_device_bytes = used_device_bytes(plan.memory, *hardware);
  plan.room = room(plan.memory, *hardware, memory_limits(config));
  plan.has_room = true;
  plan.mfu =
      mfu(*plan.estimate, training_flops(plan.plans.model, config.gradient_accumulation_steps),
          compute_dtype(config, target), *hardware);
  plan.tokens_per_second =
      static_cast<double>(tokens_per_step(config)) / plan.estimate->step_seconds;
  return plan;
}

std::vector<std::string> policy_names(const Config& config, const std::vector<std::string>& names) {
  if (names.empty()) return {config.remat_policy};
  if (names != kAllPolicies) return names;
  std::vector<std::string> all;
  for (const offload::PolicyInfo& info : offload::policies())
    if (info.name != "custom") all.push_back(info.name);
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
      plans.push_back(plan_policy(one, target, named_hardware(one)));
    } catch (const ConfigError& error) {
      if (names != kAllPolicies) throw;  // else policies that do not suit the model are skipped
      obstacle = error.what();
    }
  }
  if (plans.empty()) throw ConfigError("no policy suits: " + obstacle);
  return plans;
}

}  // namespace longshore::trainer
