// The gated layer of gpt-oss (OpenAI 2025, arXiv 2508.10925), of `gate` and `up` of one type, which
// the result has too:
//   clamped_swiglu(gate, up) -> (u + 1) g sigmoid(alpha g)
// with g = min(gate, limit), and u = up within ±limit. Numbers beyond the limit have no gradient;
// those at it do.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

struct ClampedSwigluOptions {
  double alpha, limit;
};

extern const Op clamped_swiglu_op;
extern const Op clamped_swiglu_grad_op;  // (dy, gate, up) -> dgate, dup

// An alpha that is not finite, or a limit that is not positive and finite, throws InternalError.
Var clamped_swiglu(Var gate, Var up, const ClampedSwigluOptions& options);

}  // namespace longshore::models
