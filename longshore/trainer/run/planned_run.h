// A PlannedRun is all that a run is given: what was resolved, planned and opened before.
#pragma once

#include "longshore/offload/backends/backend.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/distributed/world.h"
#include "longshore/trainer/run/console.h"
#include "longshore/trainer/run/opened_run.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {

struct PlannedRun {
  const RunSpec& spec;  // everything resolved and chosen
  const TrainingPlans& plans;
  double planning_seconds = 0;  // that these took
  const OpenedRun& opened;
  offload::Backend& backend;
  World& world;
  Console& console;
};

}  // namespace longshore::trainer
