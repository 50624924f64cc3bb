// run() trains a run that is planned and opened, from first values to its summary.
#pragma once

#include "longshore/trainer/run/planned_run.h"

namespace longshore::trainer {

// Trains from its first step, or from where it was interrupted, to the last, or until it is told to
// stop. All processes of a run call it. Throws Error where a step's numbers are not finite and the
// config does not skip it, and where the last state could not be saved; OutOfMemoryError, with what
// would help, where memory runs out during training.
void run(const PlannedRun& planned);

}  // namespace longshore::trainer
