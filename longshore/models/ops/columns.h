// take_columns(x, first, count) -> columns [first, first + count) of x: what each of several
// readers takes of a value that one product made for all. A value [..,C] is the matrix of its rows.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// x [..,C] -> [..,count].
extern const Op take_columns_op;
// (dy [..,count]) and optionally (sum [..,C]) -> sum with dy added to its columns [first, first +
// count); without a sum to zeros.
extern const Op add_columns_op;

Var take_columns(Var x, int64_t first, int64_t count);

}  // namespace longshore::models
