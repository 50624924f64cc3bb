// Plain loops that the compiler vectorises, for each instruction set of this processor family.
// A kernel is a function over a range of rows, marked LONGSHORE_SIMD and called inside a parallel
// region; helpers are force-inlined into it so that they are compiled for its instruction set.
#pragma once

#include <omp.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/bfloat16.h"
#include "base/error.h"
#include "models/types.h"

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
#define LONGSHORE_SIMD \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline))
#else
#define LONGSHORE_SIMD __attribute__((noinline))
#endif
#define LONGSHORE_INLINE inline __attribute__((always_inline))

namespace longshore::models {

using longshore::bfloat16;

LONGSHORE_INLINE float load(float value) { return value; }
LONGSHORE_INLINE float load(bfloat16 value) { return to_float(value); }

LONGSHORE_INLINE void store(float& to, float value) { to = value; }
LONGSHORE_INLINE void store(bfloat16& to, float value) { to = to_bfloat16(value); }

// exp by range reduction to [-ln2/2, ln2/2] and the Cephes polynomial; relative error below 2e-7.
// Below -87.6 it is 0; above 88.3 infinity. A NaN stays a NaN.
LONGSHORE_INLINE float exp_fast(float x) {
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
}

// tanh: near 0 the Cephes polynomial, elsewhere 1 - 2/(exp(2|x|) + 1); relative error below 2e-7.
// Odd to the bit, never beyond 1. A NaN stays a NaN.
LONGSHORE_INLINE float tanh_fast(float x) {
  float magnitude = std::abs(x), square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  float small = p * square * magnitude + magnitude;
  float large = 1.f - 2.f / (exp_fast(2.f * magnitude) + 1.f);
  return std::copysign(magnitude < 0.625f ? small : large, x);
}

// Calls f with a value of the C++ type that holds `dtype`: the types that CPU kernels come in.
template <class F>
void with_float_type(Dtype dtype, F f) {
  if (dtype == Dtype::float32)
    f(float{});
  else if (dtype == Dtype::bfloat16)
    f(bfloat16{});
  else
    throw InternalError(std::string("no CPU kernel for ") + name(dtype));
}

// Calls f(share, begin, end) on each thread's share of [0, count); shares depend only on count and
// the number of threads.
template <class F>
void parallel_shares(int64_t count, F f) {
  if (count == 1) return f(omp_get_max_threads() - 1, 0, 1);  // not worth waking the others
#pragma omp parallel
  {
    int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;
    if (begin < end) f(thread, begin, end);
  }
}

template <class F>
void parallel_ranges(int64_t count, F f) {
  parallel_shares(count, [&](int64_t, int64_t begin, int64_t end) { f(begin, end); });
}

}  // namespace longshore::models
