#include "longshore/trainer/step/short_step.h"

#include <algorithm>

namespace longshore::trainer {

namespace {

// So much of the first layers follows the policy, at least one, and one of the others where there
// are some.
std::optional<int> part_of(std::optional<int> some, int all, int layers) {
  if (!some || *some <= 0) return some;
  if (*some >= all) return layers;
  return std::clamp(static_cast<int>(int64_t{*some} * layers / all), 1, layers - 1);
}

}  // namespace

StepPlans plan_short_step(const models::Model& model, int layers, offload::LayoutOptions layout,
                          StepOptions options, models::Target target) {
  const models::Stage& stage = main_stage(model);
  const auto all = static_cast<int>(std::ssize(stage.layers));
  offload::StagePolicy policy = options.policy.of(stage.name);
  policy.offload_layers = part_of(policy.offload_layers, all, std::min(layers, all));
  options.policy.by_stage[stage.name] = std::move(policy);
  layout.layers_on_device = *part_of(layout.layers_on_device, all, std::min(layers, all));
  const models::Model few = models::truncated(model, layers);
  return plan_step(few, lay_out(few, layout), options, target);
}

}  // namespace longshore::trainer
