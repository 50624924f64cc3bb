// embedding(ids, W) -> the rows of W that ids name.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (ids i32 [B,T], W [V,C]) -> [B,T,C]. Ids must lie in [0, V): who makes batches checks that. The
// row of a padding id, where there is one, gets no gradient, as with torch.nn.Embedding.
extern const Op embedding_op;
// (ids, dy [, sum]) -> dW. Rows are added in the order of the tokens, whatever the threads.
extern const Op embedding_grad_op;

// padding: -1 for none.
Var embedding(Var ids, Var weight, int64_t padding = -1);

}  // namespace longshore::models
