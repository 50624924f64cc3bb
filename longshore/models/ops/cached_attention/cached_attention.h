// Attention of a few new tokens to all tokens so far, whose keys and values are in a cache:
// what generating text one token after the other needs (Pope et al. 2022, arXiv 2211.05102). Scores
// are those of longshore/models/ops/attention/attention.h: the same scale, window, soft-cap,
// grouped heads and sinks.
#pragma once

#include "longshore/models/ops/attention/attention.h"

namespace longshore::models {

// (rows [B,S,G*D], cache [B,P,G,D], positions i32 [B,S]) -> cache, whose row `position` is the key
// or value of the token there, for all S tokens of a row of the batch. Their positions differ, and
// are 0 to P - 1 (on the CPU others throw InternalError). What comes out takes the place of what
// goes in.
extern const Op append_to_cache_op;

// (q [B,S,H*D], keys, values [B,P,G,D], positions i32 [B,S][, sinks [H]][, spans i32 [B,S,2]]) ->
// context [B,S,H*D].
// A token sees the cache's rows up to its own, less what the window hides. With blocks it also sees
// the rows of its block, also those that the window hides: `spans` has the block's first and last
// position, or twice its own for a token of none, and the tokens of a block are in one call. Rows
// of other chunks it never sees. Rows that nothing was written to must hold finite numbers.
//
// On the CPU a token's context depends on the rows it sees alone, to the bit: not on how many other
// tokens are in the call, nor on the number of threads.
extern const Op cached_attention_op;

struct KeysAndValues {
  Var keys, values;
};

Var append_to_cache(Var rows, Var cache, Var positions);

struct CachedAttentionOptions {
  AttentionOptions attention;
  int64_t chunk = 0;  // positions are in chunks of so many, from 0 on; 0: in one
};

// What else cached attention may read.
struct CachedAttentionOptionalInputs {
  Var sinks = {};  // as attention's
  Var spans = {};  // with AttentionMask::blocks alone
};

Var cached_attention(Var q, const KeysAndValues& cache, Var positions,
                     const CachedAttentionOptions& options,
                     const CachedAttentionOptionalInputs& optional = {});

}  // namespace longshore::models
