// A RopeScaling says how RoPE's frequencies are scaled.
#pragma once

#include <variant>

namespace longshore::models {

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

}  // namespace longshore::models
