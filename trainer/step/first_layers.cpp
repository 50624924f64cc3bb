#include "trainer/step/first_layers.h"

#include <algorithm>

namespace longshore::trainer {

StepPlans plan_first_layers(const models::Model& model, const offload::LayoutOptions& layout,
                            StepOptions options, models::Target target) {
  models::Model few = models::first_layers(model, kFirstLayers);
  if (options.offload_layers)
    options.offload_layers = std::min(*options.offload_layers, kFirstLayers - 1);
  return plan_step(few, lay_out(few, layout), options, target);
}

}  // namespace longshore::trainer
