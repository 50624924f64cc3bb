// Checks that shape rules share.
#pragma once

#include <span>

#include "models/op.h"

namespace longshore::models {

// Throws InternalError "op: message".
void expect(bool holds, const char* op, const char* message);
void expect_inputs(std::span<const Type> in, size_t least, size_t most, const char* op);

// Bytes of all operands, each counted once: the cost of an element-wise op.
double operand_bytes(std::span<const Type> in, std::span<const Type> out);

}  // namespace longshore::models
