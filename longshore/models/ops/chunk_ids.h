// chunk_ids(positions, segments, chunk) numbers the chunks of a row's documents, of so many tokens
// each from a document's beginning on: ids that are equal where two tokens are of one segment and
// their positions / chunk are equal. As segments they make attention local to chunks (Llama 4).
#pragma once

#include <optional>

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (positions i32 [B,T][, segments i32 [B,T]]) -> ids i32 [B,T]: 0 at a row's first token, and one
// more at each that is of another chunk than the token before it. So no id is large, whatever
// segments' are, and a chunk must be one contiguous run, as segments are.
extern const Op chunk_ids_op;

Var chunk_ids(Var positions, std::optional<Var> segments, int64_t chunk);

}  // namespace longshore::models
