// constant(trace, type, value) -> a tensor of that type, all of whose elements are `value`, rounded
// to its dtype. Nothing has a gradient through it.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op constant_op;

// Float types only.
Var constant(Trace& trace, const Type& type, double value);

}  // namespace longshore::models
