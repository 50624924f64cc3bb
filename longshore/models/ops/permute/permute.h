// Rows of tokens by their experts: group_by_expert() says which row is whose, permute_tokens()
// copies tokens to the rows of their experts, and combine_tokens() sums what experts gave of each.
//
// N tokens, k experts of each, M = N k rows: those of the first expert, in the order of the tokens,
// then those of the next. No token is dropped, so all shapes are known; which rows an expert has is
// in memory of the device.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (experts i32 [..,k]) -> order i32 [M], the number n k + j of the row's token n and its j-th
// expert; places i32 [..,k], the row of each; ends i32 [E], the end of each expert's rows.
extern const Op group_by_expert_op;
// (x [..,C], order, places) -> [M,C].
extern const Op permute_tokens_op;
// (dy [M,C], places [..,k] [, sum]) -> [..,C] [+ sum]: the sum of each token's rows.
extern const Op permute_tokens_grad_op;
// (y [M,C], weights [..,k] in float32, or float64 where y is, order, places) -> [..,C]: the sum of
// each token's rows by their weights.
extern const Op combine_tokens_op;
// (dout [..,C], y [M,C], weights [..,k], order) -> dy [M,C], dweights [..,k].
extern const Op combine_tokens_grad_op;

struct Grouping {
  Var order, places, ends;
};

// `count`: the number of experts, E.
Grouping group_by_expert(Var experts, int64_t count);
Var permute_tokens(Var x, const Grouping& grouping);
Var combine_tokens(Var y, Var weights, const Grouping& grouping);

}  // namespace longshore::models
