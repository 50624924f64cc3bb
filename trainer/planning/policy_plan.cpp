#include "trainer/planning/policy_plan.h"

#include "trainer/config/device_mesh.h"
#include "trainer/config/model_config.h"
#include "trainer/planning/auto_policy.h"
#include "trainer/step/flops.h"

namespace longshore::trainer {

Config with_policy(Config config, const std::string& policy) {
  if (policy != config.remat_policy) config.origins["remat_policy"] = "command line";
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
                  .config = config,
                  .plans = plan_training(config, target),
                  .memory = {}};
  if (!account.empty()) plan.chosen = chosen_keys(config);
  plan.account = std::move(account);
  plan.mesh = mesh_text(config);
  plan.memory = analyze(plan.plans);
  if (!hardware) return plan;
  plan.estimate = estimate(plan.plans.step, *hardware);
  plan.used_device_bytes = used_device_bytes(plan.memory, *hardware);
  plan.room = room(plan.memory, *hardware, memory_limits(config));
  plan.mfu =
      mfu(*plan.estimate, training_flops(plan.plans.model, config.gradient_accumulation_steps),
          compute_dtype(config, target), *hardware);
  plan.tokens_per_second =
      static_cast<double>(tokens_per_step(config)) / plan.estimate->step_seconds;
  return plan;
}

std::string fits_text(const Room& room) {
  if (room.fits()) return "yes";
  std::string text = "no:";
  auto add = [&](const char* kind, int64_t spare) {
    if (spare >= 0) return;
    text += std::string(text == "no:" ? " " : ", ") + kind + " " + offload::bytes_text(-spare) +
            " short";
  };
  add("device", room.device_spare_bytes);
  add("host", room.host_spare_bytes);
  return text;
}

}  // namespace longshore::trainer
