#include "longshore/trainer/planner/policy_plan.h"

#include "longshore/base/error.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/step/flops.h"

namespace longshore::trainer {

Config with_policy(Config config, const std::string& policy) {
  if (policy != config.remat_policy) config.origins["remat_policy"] = "--policies";
  config.remat_policy = policy;
  if (policy != offload::kCustom && policy != offload::kAuto) config.label_actions.clear();
  if (policy != offload::kAuto) {
    config.auto_micro_batch = false;
    config.origins.erase("auto_micro_batch");
  }
  validate_remat(config);
  return config;
}

void require_remat_keys_read(Config config, const std::vector<std::string>& policies) {
  for (const std::string& policy : policies) {
    if (policy == offload::kCustom || policy == offload::kAuto) config.label_actions.clear();
    if (policy == offload::kAuto) config.auto_micro_batch = false;
  }
  validate_remat(config);
}

PolicyPlan plan_policy(const RunSpec& spec) {
  const Config& config = spec.config();
  if (config.remat_policy == offload::kAuto)
    throw InternalError("the policy auto is planned once it is chosen");
  PolicyPlan plan{.policy = config.remat_policy,
                  .asked = config,
                  .spec = spec,
                  .plans = plan_training(spec),
                  .memory = {}};
  plan.memory = analyze(plan.plans);
  const std::optional<offload::Hardware>& hardware = spec.hardware();
  if (!hardware) return plan;
  plan.source = hardware->source;
  plan.estimate = estimate(plan.plans.step, *hardware);
  plan.used_device_bytes = used_device_bytes(plan.memory, *hardware);
  plan.room = room(plan.memory, *hardware, memory_limits(config));
  plan.has_room = true;
  plan.mfu =
      mfu(*plan.estimate, training_flops(plan.plans.model, config.gradient_accumulation_steps),
          compute_dtype(config, spec.target()), *hardware);
  plan.tokens_per_second =
      static_cast<double>(tokens_per_step(config)) / plan.estimate->step_seconds;
  return plan;
}

}  // namespace longshore::trainer
