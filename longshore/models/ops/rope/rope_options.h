// RopeScaling, RopeTemperature and RopeOptions say how RoPE turns heads.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
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
  double low_freq_factor, high_freq_factor;  // low <= high
  double original_max_position_embeddings;   // tokens

  bool operator==(const Llama3RopeScaling&) const = default;
};

// YaRN (Peng et al. 2023, arXiv 2309.00071, as transformers' modeling_rope_utils.py has it). The
// pairs of a head that make more than beta_fast turns in the original length keep their frequency,
// those that make fewer than beta_slow have it divided by `factor`; pairs between the two mix both,
// linearly in their number. `truncate`: between the whole numbers around these two pairs. Cosines
// and sines are multiplied by attention_factor.
struct YarnRopeScaling {
  double factor;
  double original_max_position_embeddings;  // tokens
  double beta_fast, beta_slow;              // turns; fast > slow
  bool truncate;
  double attention_factor;

  bool operator==(const YarnRopeScaling&) const = default;
};

// The attention_factor that YaRN's authors recommend.
inline double yarn_attention_factor(double factor) {
  return factor <= 1 ? 1 : 0.1 * std::log(factor) + 1;
}

// Gemma 4's rule: the first pairs of a head turn as they would alone, but the others not at all.
struct ProportionalRopeScaling {
  double turned;  // the share of the pairs that turn, from 0 to 1
  double factor;  // divides their frequencies

  bool operator==(const ProportionalRopeScaling&) const = default;
};

using RopeScaling = std::variant<std::monostate, LinearRopeScaling, Llama3RopeScaling,
                                 YarnRopeScaling, ProportionalRopeScaling>;

// The length that frequencies are scaled from; nothing where none is said.
inline std::optional<double> original_length(const RopeScaling& scaling) {
  if (const auto* llama3 = std::get_if<Llama3RopeScaling>(&scaling))
    return llama3->original_max_position_embeddings;
  if (const auto* yarn = std::get_if<YarnRopeScaling>(&scaling))
    return yarn->original_max_position_embeddings;
  return std::nullopt;
}

// A temperature of attention by the place of a query (Llama 4's, also Ministral 3's): what is
// turned at position p is multiplied by 1 + beta ln(1 + floor((p + first) / length)).
struct RopeTemperature {
  double beta;
  double length;     // tokens
  double first = 0;  // the number of the first token

  bool operator==(const RopeTemperature&) const = default;
};

// Which numbers of a head are turned against each other.
enum class RopePairs : uint8_t {
  halves,    // i and i + R/2, as Llama's published weights expect
  adjacent,  // 2i and 2i + 1
};

struct RopeOptions {
  // The numbers of a head beyond the R that the table turns stay as they are.
  std::optional<int64_t> head_dim = {};  // D; R where not said
  RopePairs pairs = RopePairs::halves;
};

}  // namespace longshore::models
