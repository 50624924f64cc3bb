// Gated layers (Shazeer 2020, arXiv 2002.05202): an activation of `gate` times `up`, both of one
// type, which the result has too.
//   swiglu(gate, up) -> silu(gate) * up
//   geglu(gate, up) -> gelu(gate) * up, with the tanh form of longshore/models/ops/gelu.h
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op swiglu_op;
extern const Op swiglu_grad_op;  // (dy, gate, up) -> dgate, dup
extern const Op geglu_op;
extern const Op geglu_grad_op;  // (dy, gate, up) -> dgate, dup

Var swiglu(Var gate, Var up);
Var geglu(Var gate, Var up);

}  // namespace longshore::models
