#include "trainer/step/first_layers.h"

#include <algorithm>

namespace longshore::trainer {

StepPlans plan_first_layers(const models::Model& model, const offload::LayoutOptions& layout,
                            StepOptions options, models::Target target) {
  models::Model few = models::first_layers(model, kFirstLayers);
  if (std::optional<int>& some = options.offload_layers; some && *some > 0) {
    // As large a part of them, and where it leaves any layer, of these as well.
    const auto layers = std::max<int64_t>(1, std::ssize(scan_stage(model).layers));
    some =
        static_cast<int>(std::clamp<int64_t>(*some * kFirstLayers / layers, 1, kFirstLayers - 1));
  }
  return plan_step(few, lay_out(few, layout), options, target);
}

}  // namespace longshore::trainer
