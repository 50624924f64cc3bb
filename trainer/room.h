// Whether a run fits on this machine.
#pragma once

#include "offload/backend.h"
#include "trainer/training_plans.h"

namespace longshore::trainer {

// Throws PlanError when the backend cannot hold the plans: what they need and what is there by
// memory kind, and which keys would make it smaller, each tried.
void require_room(const Config& config, const TrainingPlans& plans, offload::Backend& backend);

}  // namespace longshore::trainer
