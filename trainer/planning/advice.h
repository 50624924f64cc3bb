// What would pay on a machine, and what would not, in words and with the two numbers compared.
#pragma once

#include <string>
#include <vector>

#include "offload/hardware.h"
#include "trainer/planning/room.h"
#include "trainer/step/estimate.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

// One line for each other fate of a label and for each other home of parameters, gradients and
// optimizer state, those that save most first; what would stay on the device is spoken of where the
// plan as it is fits. What a transfer costs is what of it is exposed, not how long it takes. Each
// change is tried alone, planned and walked as a config would be that makes it; `room` is what the
// plan as it is leaves.
std::vector<std::string> advise(const Config& config, const TrainingPlans& plans, const Room& room,
                                const offload::Hardware& hardware);

}  // namespace longshore::trainer
