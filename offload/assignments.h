// What layers can do with their values, all of it: a fate for each label. Of all assignments only
// those matter that no other beats in every respect.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/model.h"
#include "offload/hardware.h"
#include "offload/policy.h"

namespace longshore::offload {

struct Assignment {
  Policy policy;
  // Of a layer, on the average of the stage's:
  double kept_bytes = 0;
  double offloaded_bytes = 0;
  double backward_seconds = 0;  // of kernels, what is computed again included
};

// Assignments of a scan that are none the better for another, `full` among them as far as `fixed`
// allows: fates that stay, kUnlabelled among them. Query, key and value share a fate. They name as
// kept and offloaded only what the backward pass reads.
std::vector<Assignment> assignments(const models::Stage& stage,
                                    const std::map<std::string, Fate>& fixed,
                                    const Hardware& hardware);

// What that policy takes; its fates as they are.
Assignment assign(const models::Stage& stage, const Policy& policy, const Hardware& hardware);

}  // namespace longshore::offload
