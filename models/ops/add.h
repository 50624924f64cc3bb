// add(a, b) -> a + b. Residual connections, and gradients with several contributions.
#pragma once

#include "models/trace.h"

namespace longshore::models {

extern const Op add_op;

Var add(Var a, Var b);

}  // namespace longshore::models
