// Random numbers for programs to read, by a seed.
#pragma once

#include "tests/models/harness.h"
#include "tests/models/op_cases.h"

namespace longshore::models {

// Every input that the program's nodes read: normal numbers in the input's dtype, scaled so that
// results are of order one. Codes in bytes are left to the case.
Tensors random_inputs(const Program& program, const OpCase& op_case, uint64_t seed);

// One random cotangent for each output, by the output's name.
Tensors random_cotangents(const Program& program, uint64_t seed);
at::Tensor random_normal(const Type& type, uint64_t seed);
at::Tensor random_integers(at::IntArrayRef sizes, int64_t limit, uint64_t seed);  // int32, below it

}  // namespace longshore::models
