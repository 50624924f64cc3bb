// plan_short_step() plans a step of some layers alone, which stands for the whole step where many
// steps are planned only to be compared.
#pragma once

#include "longshore/models/ir/model.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

// The step of a model with the first `layers` of its layers alone. The same share of them offloads,
// and if only some do, at least one does and one does not; and so of those whose parameters stay on
// the device.
StepPlans plan_short_step(const models::Model& model, int layers, offload::LayoutOptions layout,
                          StepOptions options, models::Target target);

}  // namespace longshore::trainer
