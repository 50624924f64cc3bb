// Causal attention with grouped key/value heads, in tiles with an online softmax, so that no T×T
// matrix exists (Dao et al. 2022, arXiv 2205.14135).
#pragma once

#include "models/trace.h"

namespace longshore::models {

// (q [B,T,H*D], k, v [B,T,G*D]) -> context [B,T,H*D], log-sum-exp float32 [B,H,T]; query head h
// reads key/value head h / (H/G). The log-sum-exp is what the backward pass needs to make a tile's
// probabilities again; it shares the fate of the context.
extern const Op attention_op;
// (dcontext, q, k, v, context, log-sum-exp) -> dq, dk, dv
extern const Op attention_grad_op;

// Scores are scaled by head_dim^-1/2.
Var attention(Var q, Var k, Var v, int64_t head_dim);

}  // namespace longshore::models
