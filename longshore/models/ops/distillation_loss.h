// distillation_loss is how far a model's distribution of each next token is from a teacher's, of
// which the most likely tokens are known.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// Of forward the divergence KL(teacher || model), of reverse KL(model || teacher).
enum class KlDirection : uint8_t { forward, reverse };

// With K tokens given, distributions are those over K + 1 outcomes: each of these tokens, or any
// other. Of all tokens they are exact; of some, what is known of them, and their divergence is no
// more than that of the whole. With a temperature their log-probabilities are divided by it and
// normalised again, and the divergence is multiplied by its square (Hinton et al. 2015, arXiv
// 1503.02531). The chance of any other counts as at least 1e-6.
struct DistillationOptions {
  KlDirection direction = KlDirection::forward;
  double temperature = 1;

  bool operator==(const DistillationOptions&) const = default;
};

// (losses [B,T,K] of the K tokens, as linear_cross_entropy gives them without a reduction,
// log-probabilities [B,T,K] by the teacher, these tokens i32 [B,T,K], targets i32 [B,T]) -> sum of
// divergences, a scalar in nats. A position has none where its target, or its first token, is
// kIgnoredTarget.
extern const Op distillation_loss_op;
// (dloss, the same inputs) -> d losses [B,T,K]
extern const Op distillation_loss_grad_op;

struct DistillationInputs {
  Var losses, teacher_log_probs, tokens, targets;
};

Var distillation_loss(const DistillationInputs& inputs, const DistillationOptions& options);

}  // namespace longshore::models
