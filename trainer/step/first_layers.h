// Where many steps are planned only to be compared, those of the model's first layers stand for
// all.
#pragma once

#include "models/model.h"
#include "trainer/step/step_plans.h"

namespace longshore::trainer {

inline constexpr int kFirstLayers = 5;  // the first, the last, and some between

// The options of a step of `all` layers for one with the first `left` of them: the same share of
// them offloads, and if only some do, at least one does and one does not.
StepOptions options_for_first_layers(StepOptions options, int64_t all, int64_t left);

StepPlans plan_first_layers(const models::Model& model, const offload::LayoutOptions& layout,
                            const StepOptions& options, models::Target target);

}  // namespace longshore::trainer
