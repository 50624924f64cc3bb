// Numbers in 4 and 8 bits: what their codes stand for, and the codes of numbers.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "longshore/base/device.h"

namespace longshore {

using CodeBook = std::array<float, 16>;

// Quantiles of the normal distribution, in order (Dettmers et al. 2023, arXiv 2305.14314,
// appendix E).
inline constexpr CodeBook kNf4{-1.f,          -0.696192801f, -0.525073051f,  -0.394917488f,
                               -0.284441382f, -0.18477343f,  -0.0910500363f, 0.f,
                               0.0795802996f, 0.160930201f,  0.246112302f,   0.337915242f,
                               0.440709829f,  0.562617004f,  0.722956836f,   1.f};

// Sign and magnitude in twelfths, as bitsandbytes has them; both zeros are 0.
inline constexpr CodeBook kFp4{0.f,       0.0625f / 12, 8.f / 12,  1.f,           4.f / 12,  0.5f,
                               2.f / 12,  0.25f,        0.f,       -0.0625f / 12, -8.f / 12, -1.f,
                               -4.f / 12, -0.5f,        -2.f / 12, -0.25f};

// Sign, two bits of exponent, one of mantissa (Open Compute Project 2023, Microscaling Formats
// 1.0).
inline constexpr CodeBook kE2m1{0.f,  0.5f,  1.f,  1.5f,  2.f,  3.f,  4.f,  6.f,
                                -0.f, -0.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f};

// The power of two of a scale in 8 bits (likewise); 255 is NaN.
LONGSHORE_INLINE float e8m0_to_float(uint8_t code) {
  if (code == 0) return 0x1p-127f;
  return std::bit_cast<float>(code == 255 ? 0x7fc00000u : static_cast<uint32_t>(code) << 23);
}

// Sign, four bits of exponent, three of mantissa; no infinity (Micikevicius et al. 2022,
// arXiv 2209.05433).
inline constexpr float kLargestE4m3 = 448;

LONGSHORE_INLINE float e4m3_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu, sign = static_cast<uint32_t>(code & 0x80u) << 24;
#ifdef __CUDA_ARCH__
  // As a float32 with the same fields; the factor corrects the bias, also of subnormal numbers.
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
#else
  // Processors are slow at subnormal numbers: those get a leading one, which is then subtracted.
  const bool is_subnormal = magnitude < 8;
  const float value =
      std::bit_cast<float>((magnitude << 20) + (is_subnormal ? 121u << 23 : 120u << 23)) -
      (is_subnormal ? 0x1p-6f : 0.f);
#endif
  const uint32_t bits = magnitude == 0x7f ? 0x7fc00000u : std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>(bits | sign);
}

// The nearest, ties to even, and what is beyond the largest as that. NaN stays NaN.
LONGSHORE_INLINE uint8_t float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 24 & 0x80;
  float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
  if (magnitude != magnitude) return static_cast<uint8_t>(0x7f | sign);
  if (magnitude > kLargestE4m3) magnitude = kLargestE4m3;
  uint32_t code;
  if (magnitude < 0x1p-6f) {  // steps of 2^-9
    code = std::bit_cast<uint32_t>(magnitude + 0x1p14f) & 0xf;
  } else {
    const uint32_t m = std::bit_cast<uint32_t>(magnitude);
    code = ((m + 0x7ffff + (m >> 20 & 1)) >> 20) - (120u << 3);
  }
  return static_cast<uint8_t>(code | sign);
}

// The half precision number (IEEE 754 binary16) that is nearest, ties to even, in float32;
// infinite beyond 65504.
LONGSHORE_INLINE float round_to_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits & 0x80000000u;
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
  if (!(magnitude < 65520.f))  // NaN as well
    return magnitude != magnitude ? value : std::bit_cast<float>(sign | 0x7f800000u);
  float rounded;
  if (magnitude < 0x1p-14f) {  // steps of 2^-24
    const float shifted = magnitude + 0.5f;
    rounded = shifted - 0.5f;
  } else {
    const uint32_t m = bits & 0x7fffffffu;
    rounded = std::bit_cast<float>((m + 0xfff + (m >> 13 & 1)) & ~0x1fffu);
  }
  return std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) | sign);
}

}  // namespace longshore
