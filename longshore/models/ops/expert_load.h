// expert_load(ends) -> a scalar in float32: weight times the rows of the expert that has most over
// the mean of all. 1 where rows are spread evenly. Nothing has a gradient of it.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op expert_load_op;  // (ends i32 [E], where the rows of each end) -> the load

Var expert_load(Var ends, double weight);

}  // namespace longshore::models
