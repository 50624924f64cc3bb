// Attention with grouped key/value heads, in tiles with an online softmax, so that no T×T matrix
// exists (Dao et al. 2022, arXiv 2205.14135).
//
// A mask says which keys a query sees, less what a window or segments say:
// - a window of W hides keys that lie W or more before the query (Beltagy et al. 2020, arXiv
//   2004.05150), so that every query sees its own key and W - 1 before it;
// - segments hide all keys with another segment id: several documents in one row, or the chunks
//   that longshore/models/ops/chunk_ids.h finds in them.
//
// A head's sink is a learnt logit that is no key's: the denominator of the softmax has its
// exponential as well, so that a query need not attend to anything (Xiao et al. 2023, arXiv
// 2309.17453). It is neither scaled nor capped.
#pragma once

#include <cmath>

#include "longshore/models/ir/trace.h"

namespace longshore::models {

enum class AttentionMask {
  causal,  // the keys up to the query's own
  full,    // all
  // As causal, and all keys of the query's block, windows or not: the tokens of an image, or a
  // prefix, which is a block that begins its segment.
  blocks,
};

struct AttentionOptions {
  int64_t head_dim;     // D
  double scale = 0;     // of the scores; 0: D^-1/2
  int64_t window = 0;   // query i sees keys j with i - j < window; 0: no window, as in full masks
  double soft_cap = 0;  // scaled scores s become cap*tanh(s/cap) before they are masked (Gemma
                        // Team 2024, arXiv 2408.00118); 0: they stay
  // Whether gradients are sums in a fixed order, so that the same operands give the same bits. GPUs
  // may be faster without.
  bool deterministic = true;
  AttentionMask mask = AttentionMask::causal;

  double score_scale() const {
    return scale == 0 ? 1 / std::sqrt(static_cast<double>(head_dim)) : scale;
  }
};

// (q [B,T,H*D], k, v [B,T,G*D][, sinks][, segments][, blocks]) -> context [B,T,H*D], log-sum-exp
// float32 [B,H,T];
// query head h reads key/value head h / (H/G). The log-sum-exp is what the backward pass needs to
// make a tile's probabilities again; it counts the sink and shares the action of the context.
extern const Op attention_op;
// (dcontext, q, k, v, context, log-sum-exp[, segments][, blocks]) -> dq, dk, dv. All that it need
// know of sinks is in the log-sum-exps.
extern const Op attention_grad_op;
// (dcontext, context [B,T,H*D], log-sum-exp [B,H,T], sinks [H][, sum of dsinks]) -> dsinks [H]:
// less the sum over a head's queries of exp(sink - log-sum-exp) times dcontext·context, in an order
// that depends on the sizes alone, whatever the threads.
extern const Op attention_sinks_grad_op;

// What else attention may read.
struct AttentionOptionalInputs {
  // Of the mask, int32 [B,T]: ids, each in one contiguous run.
  Var segments = {};  // not given: one segment
  Var blocks = {};    // of blocks' mask alone, within segments; 0: in none
  Var sinks = {};     // [H], of q's dtype
};

Var attention(Var q, Var k, Var v, const AttentionOptions& options,
              const AttentionOptionalInputs& optional = {});

}  // namespace longshore::models
