// linear(x, W [, sum]) -> x·Wᵀ [+ sum]: x [.., K], W [N,K] as Hugging Face stores it, sum and
// result [.., N]. The sum is rounded once.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op linear_op;
extern const Op linear_input_grad_op;   // (dy, W [, sum]) -> dx = dy·W [+ sum]
extern const Op linear_weight_grad_op;  // (dy, x [, sum]) -> dW = dyᵀ·x [+ sum]

Var linear(Var x, Var weight);
Var linear(Var x, Var weight, Var sum);
// x·W: x [.., N], W [N,K], result [.., K].
Var transposed_linear(Var x, Var weight);

}  // namespace longshore::models
