// Which single changes to a config would make its step faster on a machine, and which would not, in
// words, with what a change saves beside what it costs.
#pragma once

#include <string>
#include <vector>

#include "offload/hardware.h"
#include "trainer/planning/room.h"
#include "trainer/step/estimate.h"
#include "trainer/step/training_plans.h"

namespace longshore::trainer {

// A line for each change: a label whose values are computed again could be offloaded, or, where the
// plan fits, kept on the device; one that is offloaded could be computed again; parameters,
// gradients and optimizer state could live on the other side of the link. What saves most comes
// first; keeping what there is no room for and homes that would be new come last. A transfer costs
// the time that kernels wait for it, not the time that it takes. Each change is planned and walked
// by itself, as a config would be that makes it. `plans` are the config's, `room` is what they
// leave on `hardware`.
std::vector<std::string> advise(const Config& config, const TrainingPlans& plans, const Room& room,
                                const offload::Hardware& hardware);

}  // namespace longshore::trainer
