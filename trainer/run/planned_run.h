// A PlannedRun is all that a run is given: what was resolved, planned and opened before.
#pragma once

#include "offload/backends/backend.h"
#include "trainer/config/run_spec.h"
#include "trainer/distributed/world.h"
#include "trainer/run/console.h"
#include "trainer/run/opened_run.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

struct PlannedRun {
  const RunSpec& spec;  // everything resolved and chosen
  const TrainingPlans& plans;
  const OpenedRun& opened;
  offload::Backend& backend;
  World& world;
  Console& console;
};

}  // namespace longshore::trainer
