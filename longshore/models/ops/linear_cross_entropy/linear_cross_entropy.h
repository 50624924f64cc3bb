// The output projection and its cross-entropy in one op, a chunk of tokens at a time, so that the
// full logits [B*T,V] never exist; with gradients, logits are made once and give loss and
// gradients in the same pass (cf. Wijmans et al. 2024, arXiv 2411.09009). Logits may be capped
// before the softmax: cap * tanh(logit / cap), as Gemma 2 has it (arXiv 2408.00118). Losses may
// also come out one by one, of several targets for each token: what objectives that weigh tokens or
// sequences begin with. Their gradients are then known only later, so logits are made twice.
#pragma once

#include <optional>

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// Targets of this value carry no loss.
inline constexpr int32_t kIgnoredTarget = -1;

// Of a token, at most.
inline constexpr int64_t kMaxTargets = 256;

// (x [B,T,C], W [V,C], targets i32 [B,T] [, z [B,T,D], U [V,D]]) -> sum of token losses in nats,
// float32 scalar. Logits are x·Wᵀ, and with z and U x·Wᵀ + z·Uᵀ, of which U has no gradient: a
// frozen head beside what an adapter adds to it.
// Without a reduction targets are [B,T] or [B,T,K], and so are the losses. A token's targets
// differ; it has none where the first is kIgnoredTarget.
extern const Op linear_cross_entropy_op;
// (x, W, targets, dloss, as the loss [, z, U] [, sum of dW]) -> dx, loss [, dW] [, dz]
extern const Op linear_cross_entropy_grad_op;

enum class Reduction : uint8_t { sum, none };

struct LinearCrossEntropyOptions {
  double soft_cap = 0;  // 0: none. Less, or not finite: InternalError.
  Reduction reduction = Reduction::sum;
};

// z and U.
struct FrozenLogits {
  Var input, weight;
};

Var linear_cross_entropy(Var x, Var weight, Var targets,
                         const LinearCrossEntropyOptions& options = {},
                         const std::optional<FrozenLogits>& beside = {});

}  // namespace longshore::models
