// add_range(a, b, out, count) adds two ranges of numbers on the CPU, each sum rounded once.
#pragma once

#include <cstdint>

#include "longshore/models/ops/kernels/float_types.h"

namespace longshore::models {

// `out` may be a or b.
void add_range(const float* a, const float* b, float* out, int64_t count);
void add_range(const bfloat16* a, const bfloat16* b, bfloat16* out, int64_t count);

}  // namespace longshore::models
