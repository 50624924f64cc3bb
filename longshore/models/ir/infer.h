// These helpers check inputs and give types and bytes for the shape and cost rules of ops.
#pragma once

#include <span>

#include "longshore/models/ir/op.h"

namespace longshore::models {

// Throws InternalError "op: message".
void expect(bool holds, const char* op, const char* message);
void expect_inputs(std::span<const Type> in, size_t least, size_t most, const char* op);

// The dtype of a reduction over values of `dtype`: float64 for float64, else float32.
Dtype reduction_dtype(Dtype dtype);

// The type of a scalar loss over values of `dtype`.
Type scalar_loss(Dtype dtype);

// Bytes of all operands, each counted once: the cost of an element-wise op.
double operand_bytes(std::span<const Type> in, std::span<const Type> out);

}  // namespace longshore::models
