// Scalar losses of whole values. Each is float32 (float64 of float64 values) and is summed in
// float64 on the CPU, in an order that does not depend on the number of threads.
#pragma once

#include "models/trace.h"

namespace longshore::models {

// (x [..]) -> the sum of its elements
extern const Op sum_op;
extern const Op sum_grad_op;  // (dloss) -> dx: dloss everywhere

// (x [..], target [..], of one type) -> mean((x - target)²)
extern const Op mean_square_error_op;
// (dloss, a, b) -> da = 2/n dloss (a - b), and the loss, since a - b is there: with x and target
// the gradient of x, the other way round that of target
extern const Op mean_square_error_grad_op;

// (W [..]) -> factor * sum(W²), W a weight
extern const Op l2_penalty_op;
extern const Op l2_penalty_grad_op;  // (dloss, W [, sum]) -> dW = 2 factor dloss W [+ sum]

Var sum(Var x);
Var mean_square_error(Var x, Var target);
Var l2_penalty(Var weight, double factor);

}  // namespace longshore::models
