// scale(x, factor) -> x * factor, rounded once. Its gradient is the same op.
#pragma once

#include "models/ir/trace.h"

namespace longshore::models {

extern const Op scale_op;

enum class Factor : uint8_t {
  in_dtype_of_x,  // rounded to x's dtype first, as a tensor of that dtype would hold it
  in_float32,     // or wider, where x is
};

// A factor that is not finite throws InternalError.
Var scale(Var x, double factor, Factor precision = Factor::in_dtype_of_x);

}  // namespace longshore::models
