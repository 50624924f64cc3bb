// Advice on a config: which single changes would make its step faster on a machine and which would
// not, in words, with what each change saves and what it costs.
#pragma once

#include <string>
#include <vector>

#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/step/estimate.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {

// Returns a line for each change. `plans` are the run's, `room` is what they leave on the profile's
// machine. These changes are considered, each planned and simulated alone as for a config that
// makes it:
// - If the plan fits, another policy: `none`, the fastest named one, and `auto`, of those that fit
//   and are faster. They come first.
// - Settings of the optimizer that save time: no clipping, which updates wait for; moments in 8
//   bits; updates on the other side of the link.
// - A label whose values are computed again is offloaded or, if the plan fits, kept on the device.
// - A label that is offloaded is computed again.
// - Parameters, gradients or optimizer state live on the other side of the link.
// Of a config that remat_policy: auto has chosen for `asked`, only settings of the optimizer are
// considered; where updates move, `auto` chooses anew for each.
// The change that saves most comes first. Changes that do not fit and new homes come last. A
// transfer costs the time that kernels wait for it, not the time that it takes.
std::vector<std::string> advise(const RunSpec& spec, const TrainingPlans& plans, const Room& room,
                                const Config* asked = nullptr);

}  // namespace longshore::trainer
