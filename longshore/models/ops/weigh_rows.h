// weigh_rows(x, weights, order) -> each row of x [M,C] times its weight, rounded once: y[m] is x[m]
// by the number order[m] of `weights`, counted through all of [..,k]. So Llama 4 (Meta 2025) weighs
// what experts read; `order` is that of group_by_expert().
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x [M,C], weights [..,k] of M numbers in float32, or float64 where x is, order i32 [M]) -> [M,C].
// Each number of a weight is in `order` once: who makes it sees to that.
extern const Op weigh_rows_op;
// (dy [M,C], x [M,C], weights, order) -> dx [M,C], dweights [..,k].
extern const Op weigh_rows_grad_op;

// Throws InternalError where x, weights and order do not fit.
Var weigh_rows(Var x, Var weights, Var order);

}  // namespace longshore::models
