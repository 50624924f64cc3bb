// mean_square_error(x, target) = mean((x - target)²): a scalar loss, float32 (float64 of float64
// values). On the CPU it is summed in float64, in an order that does not depend on the number of
// threads.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x [..], target [..], of one type) -> the mean
extern const Op mean_square_error_op;
// (dloss, a, b) -> da = 2/n dloss (a - b), and the loss, for which a - b is there already. Of
// (x, target) da is x's gradient; of (target, x) it is target's.
extern const Op mean_square_error_grad_op;

Var mean_square_error(Var x, Var target);

}  // namespace longshore::models
