// swiglu(gate, up) -> silu(gate) * up (Shazeer 2020, arXiv 2002.05202).
#pragma once

#include "models/trace.h"

namespace longshore::models {

extern const Op swiglu_op;
extern const Op swiglu_grad_op;  // (dy, gate, up) -> dgate, dup

Var swiglu(Var gate, Var up);

}  // namespace longshore::models
