// l2_penalty(W) = factor * sum(W²) of a weight: a scalar loss, float32 (float64 of float64 values).
// On the CPU it is summed in float64, in an order that does not depend on the number of threads.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op l2_penalty_op;       // (W [..]) -> the penalty
extern const Op l2_penalty_grad_op;  // (dloss, W [, sum]) -> dW = 2 factor dloss W [+ sum]

Var l2_penalty(Var weight, double factor);

}  // namespace longshore::models
