// AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101) over a flat range.
//
// Weights may be bfloat16 without a wider copy, and moments bfloat16 or 8 bits. Everything is
// computed in float32 and then rounded stochastically, up or down at random so that the expectation
// is the value: nearest rounding would lose every step that is smaller than half a gap.
#pragma once

#include "models/ir/trace.h"

namespace longshore::models {

struct AdamW {
  double b1, b2, epsilon, weight_decay;
};

// What moments are stored in; both have the same format. block8 is models/ops/kernels/block8.h:
// codes of 8 bits and one scale for each 256 of them.
enum class MomentFormat : uint8_t { float32, bfloat16, block8 };

Type moment_type(MomentFormat format, int64_t count);  // f32, bf16 or u8 [count]
Type scale_type(int64_t count);                        // f32 [ceil(count / 256)]

// Which random numbers a range rounds with: a pure function of seed, step, sequence and each
// element's index in its slab, so that a slab may be updated in parts. `first` is the index of the
// range's first element, a multiple of 64; slabs that share a seed need a sequence each.
struct Rounding {
  uint64_t seed = 0;
  uint32_t sequence = 0;
  int64_t first = 0;
};

// (gradient f32 [n]; weight f32 or bf16 [n]; m, v [n], each followed by its scales if block8;
// learning_rate, correction_1, correction_2, clip: f32 scalars; step: i32 scalar, there exactly
// when the weight or the moments are not f32)
// -> weight, m [, its scales], v [, its scales] [, compute [n] in `compute_dtype`: the weight
// rounded to nearest, where that dtype is not the weight's].
// correction_i = 1 - b_i^step. The gradient counts times clip; where clip is 0, nothing is updated,
// whatever the gradient holds, and only `compute` is made. Every output takes the place of its
// input. Parts of a block8 range that are updated apart start at multiples of 256. For tests of the
// reference kernel, gradient, weight and moments may all be f64.
extern const Op adamw_op;

struct AdamWState {
  Var weight, m, v;
  Var m_scale, v_scale;  // of block8 moments alone
};

struct AdamWScalars {
  Var learning_rate, correction_1, correction_2, clip;
  Var step;  // where something is rounded stochastically
};

std::vector<Var> adamw(const AdamW& hyperparameters, Dtype compute_dtype, Var gradient,
                       const AdamWState& state, const AdamWScalars& scalars,
                       const Rounding& rounding = {});

}  // namespace longshore::models
