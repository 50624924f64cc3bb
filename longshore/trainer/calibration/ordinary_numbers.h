// Operands for products that are timed.
#pragma once

#include <cstdint>
#include <vector>

#include "longshore/models/ir/types.h"

namespace longshore::trainer {

// `bytes` bytes of numbers from 0.5 to 1 with either sign, as irregular as those of trained
// weights: with constants fewer bits flip, so a GPU draws less power and runs faster. `dtype` is
// float32 or bfloat16.
std::vector<uint32_t> ordinary_numbers(models::Dtype dtype, int64_t bytes);

}  // namespace longshore::trainer
