// The plans of a run, on which all its processes agree.
#pragma once

#include "longshore/offload/backends/backend.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/distributed/world.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {

// This process's. Throws what does not fit as a PlanError in every process, if in any, and a
// ConfigError where processes chose differently by their machines. Every process calls it.
TrainingPlans agreed_plans(const RunSpec& spec, offload::Backend& backend, World& world);

}  // namespace longshore::trainer
