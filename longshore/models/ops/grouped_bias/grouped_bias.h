// add_grouped_bias(y, bias, ends) -> y with its expert's bias added to each row: the rows of y
// [M,N] are grouped as grouped_linear() has them, rows [ends[e-1], ends[e]) are those of expert e,
// whose bias is bias[e]. Bias [E,N] is of y's dtype. Where rows end is in memory of the device: no
// shape depends on it.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (y [M,N], bias [E,N], ends i32 [E]) -> [M,N]. Ends rise, and the last is M: who makes them sees
// to that.
extern const Op add_grouped_bias_op;
// (dy [M,N], ends [, sum]) -> dbias [E,N] [+ sum]: the sum of each expert's rows, zeros where it
// has none. The order depends on the number of those rows alone, whatever the threads.
extern const Op add_grouped_bias_grad_op;

// Throws InternalError where y, bias and ends do not fit.
Var add_grouped_bias(Var y, Var bias, Var ends);

}  // namespace longshore::models
