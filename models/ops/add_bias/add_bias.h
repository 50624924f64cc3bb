// add_bias(x, b) -> x + b: x [..,F], one bias b [F] for all rows, both of one dtype.
#pragma once

#include "models/ir/trace.h"

namespace longshore::models {

extern const Op add_bias_op;
// (dy [, sum of db]) -> db: the sum of dy's rows, in an order that depends on their number alone,
// whatever the threads.
extern const Op add_bias_grad_op;

Var add_bias(Var x, Var bias);

}  // namespace longshore::models
