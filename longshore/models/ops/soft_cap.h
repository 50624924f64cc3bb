// soft_cap(x, cap) -> cap * tanh(x / cap): numbers that stay within ±cap (Gemma 2, arXiv
// 2408.00118).
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op soft_cap_op;
extern const Op soft_cap_grad_op;  // (dy, y) -> dx = dy * (1 - (y / cap)²)

// A cap that is not positive and finite throws InternalError.
Var soft_cap(Var x, double cap);

}  // namespace longshore::models
