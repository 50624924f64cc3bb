// gelu(x) -> x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))), the tanh form of the Gaussian error
// linear unit (Hendrycks & Gimpel 2016, arXiv 1606.08415).
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op gelu_op;
extern const Op gelu_grad_op;  // (dy, x) -> dx

Var gelu(Var x);

}  // namespace longshore::models
