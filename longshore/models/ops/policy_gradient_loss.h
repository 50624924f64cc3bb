// policy_gradient_loss is what a policy loses by its chance of tokens that another, older one has
// drawn, by how good these were.
#pragma once

#include <optional>

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// What a ratio is of, and what has the same weight: a token, or a sequence.
enum class PolicyUnit : uint8_t { token, sequence };

// With p a token's log-probability, q that by the policy that drew it, A its advantage, and of a
// sequence n its tokens: r = exp(p - q), or where ratios are of sequences exp(mean of p - q); clip
// keeps r in [1 - clip_low, 1 + clip_high]. A token's loss is
//   -min(r A, clip(r) A) + kl_weight (exp(k) - k - 1),  k the reference's log-probability less p
// and a sequence has their mean, or where the mean is over tokens their sum.
//   GRPO  ratios of tokens, mean over sequences  (Shao et al. 2024, arXiv 2402.03300)
//   DAPO  ratios of tokens, mean over tokens, clip_high above clip_low  (Yu et al. 2025, arXiv
//         2503.14476)
//   GSPO  ratios of sequences, mean over sequences  (Zheng et al. 2025, arXiv 2507.18071)
struct PolicyGradientOptions {
  PolicyUnit ratio_of = PolicyUnit::token, mean_over = PolicyUnit::sequence;
  double clip_low = 0.2, clip_high = 0.2;
  double kl_weight = 0;

  bool operator==(const PolicyGradientOptions&) const = default;
};

// (token losses [B,T], targets i32 [B,T], segments i32 [B,T], advantages [B,T], log-probabilities
// by the policy that drew [B,T] [, by the reference [B,T]]) -> sum of losses, a scalar. Each
// segment of a row, in one run, is a sequence; targets that are kIgnoredTarget are no tokens of it.
// Where the drawing policy's log-probability is NaN it is taken for the policy itself: r is 1.
extern const Op policy_gradient_loss_op;
// (dloss, the same inputs) -> d token losses [B,T]
extern const Op policy_gradient_loss_grad_op;

struct PolicyGradientInputs {
  Var losses, targets, segments, advantages, old_log_probs;
  std::optional<Var> reference_log_probs;  // where the KL divergence has a weight
};

Var policy_gradient_loss(const PolicyGradientInputs& inputs, const PolicyGradientOptions& options);

}  // namespace longshore::models
