// average_pool(x) -> the averages of square windows of a square of rows, as of an image's patches.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x [N,S*S,C]) -> [N,(S/k)*(S/k),C] for windows of k*k rows, which do not overlap.
extern const Op average_pool_op;
// (dy [, sum of dx]) -> dx
extern const Op average_pool_grad_op;

// S is a multiple of the window.
Var average_pool(Var x, int64_t window);

}  // namespace longshore::models
