// layer_norm(x, w, b) -> (x - mean(x)) / sqrt(variance(x) + epsilon) * w + b over x's last
// dimension (Ba, Kiros & Hinton 2016, arXiv 1607.06450); the variance is of all its elements. Also
// gives each row's mean and reciprocal standard deviation, for the backward pass.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x [..,C], w [C], b [C]) -> y [..,C], mean float32 [rows], rstd float32 [rows]
extern const Op layer_norm_op;
// (dy, x, w, mean, rstd [, sum of dx] [, sum of dw]) -> dx [, dw]. That of b is add_bias's.
extern const Op layer_norm_grad_op;

Var layer_norm(Var x, Var weight, Var bias, double epsilon);

}  // namespace longshore::models
