// run() trains a run that is planned and opened, from first values to its summary.
#pragma once

#include "offload/backends/backend.h"
#include "trainer/config/config.h"
#include "trainer/distributed/world.h"
#include "trainer/run/console.h"
#include "trainer/run/opened_run.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

struct PlannedRun {
  const Config& config;  // everything resolved and chosen
  const TrainingPlans& plans;
  const OpenedRun& opened;
  offload::Backend& backend;
  World& world;
  Console& console;
};

// Trains from its first step, or from where it was interrupted, to the last, or until it is told to
// stop. All processes of a run call it. Throws Error where a step's numbers are not finite and the
// config does not skip it, and where the last state could not be saved; OutOfMemoryError, with what
// would help, where memory runs out during training.
void run(const PlannedRun& planned);

}  // namespace longshore::trainer
