// Operands for products that are timed.
#pragma once

#include <cstdint>
#include <vector>

#include "models/types.h"

namespace longshore::trainer {

// So many bytes of numbers of 0.5 to 1 and either sign, as irregular as those of trained weights:
// of constants fewer bits flip, and a GPU that draws less power runs faster. float32 or bfloat16.
std::vector<uint32_t> ordinary_numbers(models::Dtype dtype, int64_t bytes);

}  // namespace longshore::trainer
