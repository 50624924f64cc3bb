// Whether a run fits on this machine.
#pragma once

#include <string>

#include "offload/backend.h"
#include "trainer/training_plans.h"

namespace longshore::trainer {

// "" when the backend can hold that; otherwise a line for each kind, with what is needed and what
// is there.
std::string shortage(const MemoryByKind& memory, offload::Backend& backend);

// Throws PlanError when the backend cannot hold the plans: what they need and what is there by
// memory kind, and which keys would make it smaller, each tried.
void require_room(const Config& config, const TrainingPlans& plans, offload::Backend& backend);

}  // namespace longshore::trainer
