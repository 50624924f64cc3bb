// dequantize(codes and scales of a weight) -> its numbers, which cost less to make again than to
// keep.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (u8 [bytes] or [E,bytes]) -> QuantizedWeight::numbers, float32 or bfloat16. The numbers are the
// same to the bit on every device.
extern const Op dequantize_op;

Var dequantize(Var weight, const QuantizedWeight& quantized);

// The type of the value that holds the weight's codes and scales.
Type quantized_type(const QuantizedWeight& quantized);

}  // namespace longshore::models
