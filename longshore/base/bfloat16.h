// Brain floating point: the upper half of a float32.
#pragma once

#include <bit>
#include <cstdint>

#include "longshore/base/device.h"

namespace longshore {

struct bfloat16 {
  uint16_t bits;
};

LONGSHORE_INLINE float to_float(bfloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// To nearest, ties to even; a NaN stays a NaN.
LONGSHORE_INLINE bfloat16 to_bfloat16(float value) {
#ifdef __CUDA_ARCH__
  bfloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return {static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40 : rounded)};
#endif
}

}  // namespace longshore
