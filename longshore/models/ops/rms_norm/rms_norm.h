// rms_norm(x, w) -> x / sqrt(mean(x²) + epsilon) * (weight_offset + w) over runs of as many
// elements as w has (Zhang & Sennrich 2019, arXiv 1910.07467): the last dimension, or with a
// shorter w its parts, as heads are normalised. The sum weight_offset + w is as wide as the
// computation. Also gives the reciprocal root mean square of each run, for the backward pass.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x [..,H*D], w [D]) -> y [..,H*D], rstd float32 [rows*H]
extern const Op rms_norm_op;
// (dy, x, w, rstd [, sum of dx] [, sum of dw]) -> dx [, dw]
extern const Op rms_norm_grad_op;

struct RmsNormOptions {
  double weight_offset = 0;  // Gemma's weights are what is added to 1
};

// H is 1 unless the weight is shorter than x's last dimension, which it must divide.
Var rms_norm(Var x, Var weight, double epsilon, const RmsNormOptions& options = {});

}  // namespace longshore::models
