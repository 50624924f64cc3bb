// scale(x, factor) -> x * factor, the factor rounded to x's dtype first, as a tensor of that dtype
// would hold it. Its gradient is the same op.
#pragma once

#include "models/trace.h"

namespace longshore::models {

extern const Op scale_op;

// A factor that is not finite throws InternalError.
Var scale(Var x, double factor);

}  // namespace longshore::models
