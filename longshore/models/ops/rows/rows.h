// Rows of a value by their places: take_rows() takes them, replace_rows() puts rows of another
// value there. A value [..,C] is the matrix of its rows; places count these from 0.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x [..,C], places i32 [N] or [M,N]) -> [N,C] or [M,N,C]: zeros where a place is -1.
extern const Op take_rows_op;
// (x [..,C], rows [N,C] or [M,N,C], places i32 [N] or [M,N]) -> x [..,C], but at each row's place
// that row; a row whose place is -1 goes nowhere. No two rows have one place: who makes batches
// checks that, and that places lie in x.
extern const Op replace_rows_op;
// (x [..,C], places) -> x [..,C], but zeros at the places: what replace_rows leaves of a gradient.
extern const Op clear_rows_op;

Var take_rows(Var x, Var places);
Var replace_rows(Var x, Var rows, Var places);

}  // namespace longshore::models
