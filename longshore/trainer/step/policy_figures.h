// PolicyFigures say how far a policy is from the one that drew its answers.
#pragma once

#include <optional>
#include <span>

#include "longshore/data/rows/batch.h"
#include "longshore/models/ops/policy_gradient_loss.h"

namespace longshore::trainer {

// Sums over trained tokens, from which means over a step follow.
struct PolicyFigures {
  double tokens = 0;
  double ratios = 0;      // as the loss has them, without bounds
  double clipped = 0;     // tokens of which the loss has the bound, and no gradient
  double divergence = 0;  // estimates of KL(drew || policy), r - 1 - log r: Schulman 2020,
                          // "Approximating KL Divergence"

  static constexpr int kCount = 4;
  std::span<double, kCount> values() { return std::span<double, kCount>(&tokens, kCount); }

  double ratio() const { return mean(ratios); }
  double clip_fraction() const { return mean(clipped); }
  double kl() const { return mean(divergence); }

 private:
  double mean(double sum) const { return tokens > 0 ? sum / tokens : 0; }
};

// Adds those of a batch, of which the policy's log-probabilities [B,T] are given by position.
void add_policy_figures(const models::PolicyGradientOptions& options, const data::Batch& batch,
                        std::span<const float> log_probs, PolicyFigures& figures);

}  // namespace longshore::trainer
