// The product of one row and a weight that is stored in few bits: what a linear layer is for a
// single token. Its numbers are made as they are used and written nowhere, so that the codes are
// all that memory gives.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (x [..,K] of one row, W's codes and scales u8 [bytes] [, sum [..,N]]) -> x·Wᵀ [+ sum] [..,N], for
// numbers [N,K] of x's dtype. Nothing has a gradient through it.
extern const Op quantized_linear_op;

// Whether it serves a product of that x and that weight.
bool serves_quantized_linear(const Type& x, const QuantizedWeight& weight);

Var quantized_linear(Var x, Var weight, const QuantizedWeight& quantized);

}  // namespace longshore::models
