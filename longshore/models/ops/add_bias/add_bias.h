// add_bias(x, b) -> x + b: x [..,F], one bias b for all rows, both of one dtype. Its shape is that
// of x's last dimensions: [F], or [T,F] where each position has its own.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

class Backward;

extern const Op add_bias_op;
// (dy [, sum of db]) -> db: the sum of dy's rows, in an order that depends on their number alone,
// whatever the threads.
extern const Op add_bias_grad_op;
// Adds that to the bias's gradient.
void accumulate_bias_grad(Backward& backward, ValueId dy, ValueId bias);

Var add_bias(Var x, Var bias);

}  // namespace longshore::models
