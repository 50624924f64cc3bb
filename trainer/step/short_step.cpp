#include "trainer/step/short_step.h"

#include <algorithm>

namespace longshore::trainer {

StepPlans plan_short_step(const models::Model& model, int layers,
                          const offload::LayoutOptions& layout, StepOptions options,
                          models::Target target) {
  const auto all = static_cast<int>(std::ssize(scan_stage(model).layers));
  layers = std::min(layers, all);
  if (std::optional<int>& some = options.offload_layers; some && *some > 0)
    some = *some < all ? std::clamp(static_cast<int>(int64_t{*some} * layers / all), 1, layers - 1)
                       : layers;
  const models::Model few = models::truncated(model, layers);
  return plan_step(few, lay_out(few, layout), options, target);
}

}  // namespace longshore::trainer
