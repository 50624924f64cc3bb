// The exact global gradient norm that clipping needs (Pascanu et al. 2013, arXiv 1211.5063).
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x float32 [n]) -> sum of squares, float64 scalar. Fixed order of summation.
extern const Op square_sum_op;
// (x float64 [k]) -> the sum of the first of them, in order, float64 [1]; of none it is 0.
extern const Op sum_in_order_op;
// (square sums, float64 [k]) -> factor, norm (float32 scalars): norm is the root of their sum, in
// order; factor = min(1, threshold / norm), and 0 where the norm is not finite. A threshold of 0
// does not clip: the factor is 1.
extern const Op clip_op;

Var square_sum(Var x);
// Of all, or of the first `count`.
Var sum_in_order(Var x);
Var sum_in_order(Var x, int64_t count);

// The factor that clips a gradient of that norm: as clip_op's.
float clip_factor(double norm, double threshold);

struct Clip {
  Var factor, norm;
};
Clip clip(Var square_sums, double threshold);

}  // namespace longshore::models
