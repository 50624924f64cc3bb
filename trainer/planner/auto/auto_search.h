// The search of remat_policy: auto. The formula ranks every split of the layers between two
// assignments, for each cut into micro-batches and each combination of homes. The best few dozen
// are walked, then plans near the best of these with other numbers of layers and other depths of
// lookahead. Each named policy that suits the model is walked as well, so none of them is faster
// than the best plan.
#pragma once

#include <vector>

#include "trainer/planner/walked_plan.h"

namespace longshore::trainer {

// A quick search walks a small part of what a thorough one does, no named policies among them, so
// its best plan may be slower. It is enough to say what `auto` gains at least.
enum class Effort { quick, thorough };

// All plans that were walked, in no particular order, some of them twice. Values of keys that were
// set are kept. If nothing fits in a thorough search, the smallest plans are among them. Throws
// ConfigError as base_plans() does.
std::vector<WalkedPlan> search(const Config& config, models::Target target,
                               const offload::Hardware& hardware, Effort effort = Effort::thorough);

}  // namespace longshore::trainer
