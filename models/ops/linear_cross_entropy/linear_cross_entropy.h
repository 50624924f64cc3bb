// The output projection and its cross-entropy in one op, a chunk of tokens at a time, so that the
// full logits [B*T,V] never exist; with gradients, logits are made once and give loss and
// gradients in the same pass (cf. Wijmans et al. 2024, arXiv 2411.09009). Logits may be capped
// before the softmax: cap * tanh(logit / cap), as Gemma 2 has it (arXiv 2408.00118).
#pragma once

#include <optional>

#include "models/ir/trace.h"

namespace longshore::models {

// Targets of this value carry no loss.
inline constexpr int32_t kIgnoredTarget = -1;

// (x [B,T,C], W [V,C], targets i32 [B,T] [, z [B,T,D], U [V,D]]) -> sum of token losses in nats,
// float32 scalar. Logits are x·Wᵀ, and with z and U x·Wᵀ + z·Uᵀ, of which U has no gradient: a
// frozen head beside what an adapter adds to it.
extern const Op linear_cross_entropy_op;
// (x, W, targets, dloss [, z, U] [, sum of dW]) -> dx, loss [, dW] [, dz]
extern const Op linear_cross_entropy_grad_op;

struct LinearCrossEntropyOptions {
  double soft_cap = 0;  // 0: none. Less, or not finite: InternalError.
};

// z and U.
struct FrozenLogits {
  Var input, weight;
};

Var linear_cross_entropy(Var x, Var weight, Var targets,
                         const LinearCrossEntropyOptions& options = {},
                         const std::optional<FrozenLogits>& beside = {});

}  // namespace longshore::models
