#include "trainer/step/first_layers.h"

#include <algorithm>

namespace longshore::trainer {

StepPlans plan_first_layers(const models::Model& model, const offload::LayoutOptions& layout,
                            StepOptions options, models::Target target) {
  models::Model few = models::first_layers(model, kFirstLayers);
  if (std::optional<int>& some = options.offload_layers; some && *some > 0) {
    // As large a part of them, and where it leaves any layer, of these as well.
    const int64_t layers = std::ssize(scan_stage(model).layers),
                  left = std::ssize(scan_stage(few).layers);
    if (*some < layers)
      some = static_cast<int>(std::clamp<int64_t>(*some * left / layers, 1, left - 1));
  }
  return plan_step(few, lay_out(few, layout), options, target);
}

}  // namespace longshore::trainer
