// assignments() lists what the layers of a stage can do with their values: an assignment gives each
// label an action. Only assignments on the Pareto front matter, those that no other one beats in
// every respect.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "longshore/models/ir/model.h"
#include "longshore/offload/hardware/hardware.h"
#include "longshore/offload/policy/policy.h"

namespace longshore::offload {

struct Assignment {
  Policy policy;
  // Averages over the stage's layers, for one layer:
  double kept_bytes = 0;
  double offloaded_bytes = 0;
  double backward_seconds = 0;  // the time of all kernels, recomputation included
};

// The Pareto front of a scanned stage's assignments, by kept bytes, offloaded bytes and backward
// time. Labels in `fixed`, which may include kUnlabelled, keep the actions given there; as far as
// they allow it, the policy `full` is in the front. The query, key and value projections share a
// action. Labels count as kept or offloaded only if the backward pass reads them.
std::vector<Assignment> assignments(const models::Stage& stage,
                                    const std::map<std::string, Action>& fixed,
                                    const Hardware& hardware);

// What the given policy costs. Its actions are returned unchanged.
Assignment assign(const models::Stage& stage, const Policy& policy, const Hardware& hardware);

}  // namespace longshore::offload
