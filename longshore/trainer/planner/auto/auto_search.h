// The search of remat_policy: auto. The formula ranks every split of the layers between two
// assignments, for each cut into micro-batches and each combination of homes. The best few dozen
// are simulated, then plans near the best of these with other numbers of layers and other depths of
// prefetch. Each named policy that suits the model is simulated as well, so none of them is faster
// than the best plan.
#pragma once

#include <vector>

#include "longshore/trainer/planner/simulated_plan.h"

namespace longshore::trainer {

// A quick search simulates a small part of what a thorough one does, no named policies among them,
// so its best plan may be slower. It is enough to say what `auto` gains at least.
enum class Effort { quick, thorough };

// All plans that were simulated, in no particular order, some of them twice. Values of keys that
// were set are kept. If nothing fits in a thorough search, the smallest plans are among them.
// Throws ConfigError as base_plans() does.
std::vector<SimulatedPlan> search(const RunSpec& spec, Effort effort = Effort::thorough);

}  // namespace longshore::trainer
