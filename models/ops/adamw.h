// The optimizer's ops: AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101) over a flat range, and
// the exact global gradient norm that clipping needs (Pascanu et al. 2013, arXiv 1211.5063).
#pragma once

#include "models/trace.h"

namespace longshore::models {

struct AdamW {
  double b1, b2, epsilon, weight_decay;
};

// (gradient, master, m, v: float32 [n]; learning_rate, correction_1, correction_2, clip: float32
// scalars) -> master, m, v [, compute [n] in `compute_dtype` where that is not float32].
// correction_i = 1 - b_i^step. Every output takes the place of its input.
extern const Op adamw_op;
// (x float32 [n] [, sum]) -> sum of squares, float64 scalar [+ sum]. Fixed order of summation.
extern const Op square_sum_op;
// (square sum, float64) -> factor, norm (float32 scalars): factor = min(1, threshold / norm).
// A threshold of 0 does not clip.
extern const Op clip_op;

struct AdamWState {
  Var master, m, v;
};

struct AdamWScalars {
  Var learning_rate, correction_1, correction_2, clip;
};

// Returns master, m, v and, where compute_dtype is not float32, the new compute copy.
std::vector<Var> adamw(const AdamW& hyperparameters, Dtype compute_dtype, Var gradient,
                       AdamWState state, AdamWScalars scalars);
Var square_sum(Var x);
Var square_sum(Var x, Var sum);

struct Clip {
  Var factor, norm;
};
Clip clip(Var square_sum, double threshold);

}  // namespace longshore::models
