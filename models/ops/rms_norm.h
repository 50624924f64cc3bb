// rms_norm(x, w) -> x / sqrt(mean(x²) + epsilon) * w over the last dimension (Zhang & Sennrich
// 2019, arXiv 1910.07467), and the reciprocal root mean square of each row for the backward pass.
#pragma once

#include "models/trace.h"

namespace longshore::models {

// (x [..,C], w [C]) -> y [..,C], rstd float32 [rows]
extern const Op rms_norm_op;
// (dy, x, w, rstd [, sum of dx] [, sum of dw]) -> dx [, dw]
extern const Op rms_norm_grad_op;

Var rms_norm(Var x, Var weight, double epsilon);

}  // namespace longshore::models
