// top_log_probs finds each position's most likely next tokens, a chunk of positions at a time, so
// that the full logits never exist.
#pragma once

#include <optional>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace longshore::models {

struct TopLogProbsOptions {
  int64_t count = 1;    // K, up to V
  double soft_cap = 0;  // as linear_cross_entropy has it

  bool operator==(const TopLogProbsOptions&) const = default;
};

// (x [B,T,C], W [V,C] [, z [B,T,D], U [V,D]]) -> tokens i32 [B,T,K], their log-probabilities f32 or
// f64 [B,T,K]; the most likely one first. Logits are those of linear_cross_entropy. It has no
// gradient.
extern const Op top_log_probs_op;

struct TopLogProbs {
  Var tokens, log_probs;
};

TopLogProbs top_log_probs(Var x, Var weight, const TopLogProbsOptions& options,
                          const std::optional<FrozenLogits>& beside = {});

}  // namespace longshore::models
