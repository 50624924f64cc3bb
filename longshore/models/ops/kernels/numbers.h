// Functions of single numbers, for vectorised loops on the CPU and for kernels on a GPU: loads and
// stores that round, and exp and tanh without branches.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "longshore/base/bfloat16.h"

namespace longshore::models {

using longshore::bfloat16;

LONGSHORE_INLINE float load(float value) { return value; }
LONGSHORE_INLINE float load(bfloat16 value) { return to_float(value); }

LONGSHORE_INLINE void store(float& to, float value) { to = value; }
LONGSHORE_INLINE void store(bfloat16& to, float value) { to = to_bfloat16(value); }

// a / b; on a GPU by b's reciprocal, 2 units in the last place from it, and 0 where b is beyond
// 2^126.
LONGSHORE_INLINE float divide_fast(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

// exp by range reduction to [-ln2/2, ln2/2] and the Cephes polynomial; relative error below 2e-7.
// Below -87.6 it is 0; above 88.3 infinity. A NaN stays a NaN.
LONGSHORE_INLINE float exp_fast(float x) {
#ifdef __CUDA_ARCH__
  return expf(x);  // a few instructions there; below -87.6 it goes on with subnormal numbers
#else
  float clamped = x > 89.f ? 89.f : x;
  clamped = clamped < -88.f ? -88.f : clamped;  // there 2^n is 0
  float n = std::nearbyint(clamped * 1.44269504f);
  float r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
#endif
}

// tanh: near 0 the Cephes polynomial, elsewhere 1 - 2/(exp(2|x|) + 1); relative error below 2e-7.
// Odd to the bit, never beyond 1. A NaN stays a NaN.
LONGSHORE_INLINE float tanh_fast(float x) {
#ifdef __CUDA_ARCH__
  return tanhf(x);
#else
  float magnitude = std::abs(x), square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  float small = p * square * magnitude + magnitude;
  float large = 1.f - 2.f / (exp_fast(2.f * magnitude) + 1.f);
  return std::copysign(magnitude < 0.625f ? small : large, x);
#endif
}

// cap*tanh(x/cap), or x where cap is 0; and its slope there, of what it gave.
LONGSHORE_INLINE float soft_capped(float x, float cap) {
  return cap > 0 ? cap * tanh_fast(divide_fast(x, cap)) : x;
}
LONGSHORE_INLINE float soft_cap_slope(float capped, float cap) {
  const float tanh = divide_fast(capped, cap);
  return cap > 0 ? 1.f - tanh * tanh : 1.f;
}

}  // namespace longshore::models
