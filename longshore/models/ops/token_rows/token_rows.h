// Rows of some tokens in the place of an embedding's: what trains where single tokens do (peft's
// trainable_token_indices). Row i of `rows` is that of the i-th of the tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x [..,C], tokens i32 [..], rows [N,C]) -> x, but the row of `rows` where a token has one. x has
// no gradient.
extern const Op token_rows_op;
// (dy [..,C], tokens i32 [..] [, sum f32 [N,C]]) -> the rows' gradient f32 [N,C]; that of the pad
// token is zero, as embedding's
extern const Op token_rows_grad_op;
// (W [V,C], rows [N,C]) -> W, but the tokens' rows are those. W has no gradient.
extern const Op replace_token_rows_op;
// (dW [V,C] [, sum f32 [N,C]]) -> the rows' gradient f32 [N,C]
extern const Op replace_token_rows_grad_op;

// `ids`: the tokens, each once.
Var token_rows(Var x, Var tokens, Var rows, std::vector<int64_t> ids, int64_t pad_token = -1);
Var replace_token_rows(Var weight, Var rows, std::vector<int64_t> ids);

}  // namespace longshore::models
