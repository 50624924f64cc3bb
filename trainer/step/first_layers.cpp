#include "trainer/step/first_layers.h"

#include <algorithm>

namespace longshore::trainer {

StepOptions options_for_first_layers(StepOptions options, int64_t all, int64_t left) {
  if (std::optional<int>& some = options.offload_layers; some && *some > 0)
    some =
        static_cast<int>(*some < all ? std::clamp<int64_t>(*some * left / all, 1, left - 1) : left);
  return options;
}

StepPlans plan_first_layers(const models::Model& model, const offload::LayoutOptions& layout,
                            const StepOptions& options, models::Target target) {
  const models::Model few = models::first_layers(model, kFirstLayers);
  return plan_step(few, lay_out(few, layout),
                   options_for_first_layers(options, std::ssize(scan_stage(model).layers),
                                            std::ssize(scan_stage(few).layers)),
                   target);
}

}  // namespace longshore::trainer
