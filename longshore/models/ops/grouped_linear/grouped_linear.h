// grouped_linear(x, W, ends) -> the rows of each expert by its matrix: rows [ends[e-1], ends[e]) of
// x [M,K] are multiplied by W[e]. W is [E,N,K], as linear's are, or [E,K,N], as some models are
// published. Where rows end is in memory of the device: no shape depends on it.
#pragma once

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/kernels/matmul.h"

namespace longshore::models {

// (x [M,K], W, ends i32 [E] [, sum]) -> [M,N] [+ sum]. Ends rise, and the last is M: who makes them
// sees to that.
extern const Op grouped_linear_op;
extern const Op grouped_linear_input_grad_op;   // (dy [M,N], W, ends [, sum]) -> dx [M,K] [+ sum]
extern const Op grouped_linear_weight_grad_op;  // (dy, x, ends [, sum]) -> dW [+ sum]

// `layout` of each matrix of W: transposed [N,K], plain [K,N].
Var grouped_linear(Var x, Var weight, Var ends, Layout layout = Layout::transposed);
// sum + that
Var grouped_linear(Var x, Var weight, Var ends, Layout layout, Var sum);

}  // namespace longshore::models
