// Rotary position embedding (Su et al. 2021, arXiv 2104.09864), rotating the first half of each
// head against the second, as Llama's published weights expect.
#pragma once

#include <array>
#include <variant>

#include "models/ir/trace.h"

namespace longshore::models {

// (positions [B,T]) -> cos, sin, each float32 [B,T,D/2].
extern const Op rope_table_op;
// (x [B,T,H*D], cos, sin) -> the rotated x.
extern const Op rope_op;

struct RopeTable {
  Var cos, sin;
};

// How a model that was trained on short sequences takes longer ones: lower frequencies. The names
// are those of Hugging Face's rope_scaling; what is not positive throws InternalError.
struct LinearRopeScaling {
  double factor;  // divides every frequency (Chen et al. 2023, arXiv 2306.15595)

  bool operator==(const LinearRopeScaling&) const = default;
};

// Llama 3.1's rule (transformers, modeling_rope_utils.py). With r the full turns that a frequency
// makes in the original length, those with r <= low_freq_factor are divided by `factor`, those with
// r >= high_freq_factor stay; between the two, the divided and the kept are mixed linearly in r.
struct Llama3RopeScaling {
  double factor;
  double low_freq_factor, high_freq_factor;  // low < high
  double original_max_position_embeddings;   // tokens

  bool operator==(const Llama3RopeScaling&) const = default;
};

using RopeScaling = std::variant<std::monostate, LinearRopeScaling, Llama3RopeScaling>;

// Angles positions * base^(-2i/D), the frequencies scaled. `base` is rope_theta, MaxText's
// rope_max_timescale.
RopeTable rope_table(Var positions, int64_t head_dim, double base, const RopeScaling& scaling = {});
Var rope(Var x, RopeTable table);

}  // namespace longshore::models
