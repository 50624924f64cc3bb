// sum(x): a scalar loss, float32 (float64 of float64 values). On the CPU it is summed in float64,
// in an order that does not depend on the number of threads.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op sum_op;       // (x [..]) -> the sum of its elements
extern const Op sum_grad_op;  // (dloss) -> dx: dloss everywhere

Var sum(Var x);

}  // namespace longshore::models
