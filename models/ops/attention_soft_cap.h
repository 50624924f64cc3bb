// What soft-capping of attention's scores is made of.
#pragma once

#include <cmath>

#include "models/ops/simd.h"

namespace longshore::models {

// The Cephes polynomial near 0, elsewhere 1 - 2/(exp(2|x|) + 1) with x's sign; relative error below
// 2e-7. A NaN stays a NaN.
LONGSHORE_INLINE float tanh_fast(float x) {
  float size = std::fabs(x), square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  float near = x + x * square * p;
  float far = std::copysign(1.f - 2.f / (exp_fast(2.f * size) + 1.f), x);
  return size < 0.625f ? near : far;
}

}  // namespace longshore::models
