// The search of remat_policy: auto. The formula ranks every split of the layers between two
// assignments, for each cut into micro-batches and each combination of homes; the best few dozen
// are walked, and around the best of these other numbers of layers and other starts of transfers.
// Each named policy that suits the model is walked as well, so none is faster than the best.
#pragma once

#include <vector>

#include "trainer/planning/walked_plan.h"

namespace longshore::trainer {

// All plans that were walked, in no order, some of them twice. Keys that are set stay. Where
// nothing fits, the smallest plans are among them. Throws ConfigError as base_plans() does.
std::vector<WalkedPlan> search(const Config& config, models::Target target,
                               const offload::Hardware& hardware);

}  // namespace longshore::trainer
