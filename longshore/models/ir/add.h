// add(a, b) -> a + b: residual connections, and what differentiation itself emits where a value has
// several gradients. So the language has this op; its kernels are with the others, in
// longshore/models/ops/.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op add_op;

Var add(Var a, Var b);

// add(a, b) as a program with values 0, 1 and 2: how plans sum up what layers and micro-batches
// make.
Program addition(const Type& type);

}  // namespace longshore::models
