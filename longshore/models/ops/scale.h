// scale(x, factor) and scale_by(x, factor) -> x * factor, rounded once; the factor is a number, or
// a value of one element. Their gradients are the same ops.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op scale_op;
// (x, factor [1] of x's dtype) -> x * factor; the factor has no gradient.
extern const Op scale_by_op;

enum class Factor : uint8_t {
  in_dtype_of_x,  // rounded to x's dtype first, as a tensor of that dtype would hold it
  in_float32,     // or wider, where x is
};

// A factor that is not finite throws InternalError.
Var scale(Var x, double factor, Factor precision = Factor::in_dtype_of_x);
Var scale_by(Var x, Var factor);

}  // namespace longshore::models
