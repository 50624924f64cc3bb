// Where many steps are planned only to be compared, those of the model's first layers stand for
// all.
#pragma once

#include "models/model.h"
#include "trainer/step/step_plans.h"

namespace longshore::trainer {

inline constexpr int kFirstLayers = 5;  // the first, the last, and some between

StepPlans plan_first_layers(const models::Model& model, const offload::LayoutOptions& layout,
                            StepOptions options, models::Target target);

}  // namespace longshore::trainer
