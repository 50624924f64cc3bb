// preference_loss is how far a model is from preferring the better of two answers, by the
// log-probabilities that it and a reference give to both.
#pragma once

#include <optional>

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// With m the model's log-probability of an answer less the reference's, or of its mean token where
// lengths are normalised, d = m_chosen - m_rejected, z = beta d - margin and e = label_smoothing:
//   sigmoid     -(1-e) log s(z) - e log s(-z)  (Rafailov et al. 2023, arXiv 2305.18290; Mitchell
//               2023 for e. Without a reference, with a margin: Meng et al. 2024, arXiv 2405.14734)
//   robust      (-(1-e) log s(z) + e log s(-z)) / (1 - 2e)  (Chowdhury et al. 2024, arXiv
//               2403.00409)
//   hinge       max(0, 1 - z)  (Zhao et al. 2023, arXiv 2305.10425)
//   squared     (d - 1 / 2beta)²  (Azar et al. 2023, arXiv 2310.12036)
//   odds_ratio  -beta log s(o), o the log of the ratio of their odds, without a reference (Hong et
//               al. 2024, arXiv 2403.07691)
//   kto         of each answer by itself: w (1 - s(beta (m - kl))) of the chosen, and
//               w (1 - s(beta (kl - m))) of the rejected (Ethayarajh et al. 2024, arXiv 2402.01306)
enum class PreferenceLoss : uint8_t { sigmoid, robust, hinge, squared, odds_ratio, kto };

struct PreferenceLossOptions {
  PreferenceLoss kind = PreferenceLoss::sigmoid;
  double beta = 0.1;
  double label_smoothing = 0;  // [0, 0.5)
  double margin = 0;
  bool normalizes_length = false;
  double chosen_weight = 1, rejected_weight = 1;  // of kto

  bool operator==(const PreferenceLossOptions&) const = default;
};

// (log-probabilities [B,T], counts of their tokens [B,T] [, those of the reference [B,T] [, kl
// [B]]]) -> sum of losses, a scalar. In a row the answers' places are those of
// sequence_log_probs: pair p has its chosen answer at 2p and its rejected one at 2p + 1. A pair of
// which one has no tokens counts nothing; of kto those that have.
extern const Op preference_loss_op;
// (dloss, the same inputs) -> d log-probabilities [B,T]
extern const Op preference_loss_grad_op;

// (log-probabilities [B,T]) -> minus the sum of those of chosen answers
extern const Op chosen_loss_op;
// (dloss, log-probabilities [B,T]) -> d log-probabilities [B,T]
extern const Op chosen_loss_grad_op;

struct PreferenceLossInputs {
  Var log_probs, counts;
  std::optional<Var> reference, kl;  // kl: of kto, and only with a reference
};

Var preference_loss(const PreferenceLossInputs& inputs, const PreferenceLossOptions& options);
Var chosen_loss(Var log_probs);

}  // namespace longshore::models
