// The output projection and its cross-entropy in one op, a chunk of tokens at a time, so that the
// full logits [B*T,V] never exist; with gradients, logits are made once and give loss and
// gradients in the same pass (cf. Wijmans et al. 2024, arXiv 2411.09009). Logits may be capped
// before the softmax: cap * tanh(logit / cap), as Gemma 2 has it (arXiv 2408.00118).
#pragma once

#include "models/ir/trace.h"

namespace longshore::models {

// Targets of this value carry no loss.
inline constexpr int32_t kIgnoredTarget = -1;

// (x [B,T,C], W [V,C], targets i32 [B,T]) -> sum of token losses in nats, float32 scalar
extern const Op linear_cross_entropy_op;
// (x, W, targets, dloss [, sum of dW]) -> dx, loss [, dW]
extern const Op linear_cross_entropy_grad_op;

struct LinearCrossEntropyOptions {
  double soft_cap = 0;  // 0: none. Less, or not finite: InternalError.
};

Var linear_cross_entropy(Var x, Var weight, Var targets,
                         const LinearCrossEntropyOptions& options = {});

}  // namespace longshore::models
