// Causal attention with grouped key/value heads, in tiles with an online softmax, so that no T×T
// matrix exists (Dao et al. 2022, arXiv 2205.14135).
//
// A query sees the keys up to its own, less what a window or segments say:
// - a window of W hides keys that lie W or more before the query (Beltagy et al. 2020, arXiv
//   2004.05150), so that every query sees its own key and W - 1 before it;
// - segments hide all keys with another segment id: several documents in one row.
#pragma once

#include <cmath>

#include "models/ir/trace.h"

namespace longshore::models {

struct AttentionOptions {
  int64_t head_dim;     // D
  double scale = 0;     // of the scores; 0: D^-1/2
  int64_t window = 0;   // query i sees keys j with i - j < window; 0: no window
  double soft_cap = 0;  // scaled scores s become cap*tanh(s/cap) before they are masked (Gemma
                        // Team 2024, arXiv 2408.00118); 0: they stay
  // Whether gradients are sums in a fixed order, so that the same operands give the same bits. GPUs
  // may be faster without.
  bool deterministic = true;

  double score_scale() const {
    return scale == 0 ? 1 / std::sqrt(static_cast<double>(head_dim)) : scale;
  }
};

// (q [B,T,H*D], k, v [B,T,G*D][, segments]) -> context [B,T,H*D], log-sum-exp float32 [B,H,T];
// query head h reads key/value head h / (H/G). The log-sum-exp is what the backward pass needs to
// make a tile's probabilities again; it shares the fate of the context.
extern const Op attention_op;
// (dcontext, q, k, v, context, log-sum-exp[, segments]) -> dq, dk, dv
extern const Op attention_grad_op;

// Segments are int32 [B,T], their ids; each is one contiguous run of its id. Not given: one
// segment.
Var attention(Var q, Var k, Var v, const AttentionOptions& options, Var segments = {});

}  // namespace longshore::models
