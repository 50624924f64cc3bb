// The ops of DoRA (Liu et al. 2024, arXiv 2402.09353): with V = W + scale·B·A, row o of it counts
// magnitude_o / |V_o| times, where |V_o| counts as a constant in gradients, as in peft.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (W [N,K], A [R,K], B [N,R]) -> |V_o| for each row o of V, f32 [N]. Nothing has a gradient through
// it.
extern const Op adapted_norms_op;
// (y [..,N], magnitudes [N], norms f32 [N]) -> y, each column times magnitude / norm
extern const Op scale_columns_op;
// (dy, y, norms) -> the magnitudes' gradient f32 [N] [, + sum f32 [N]]
extern const Op scale_columns_grad_op;

Var adapted_norms(Var w, Var a, Var b, double scale);
Var scale_columns(Var y, Var magnitudes, Var norms);

}  // namespace longshore::models
