// Optimizer moments in 8 bits: floats with three bits of mantissa, relative to a scale that a block
// of 256 elements shares. Block-wise scales are those of Dettmers et al. 2021 (arXiv 2110.02861),
// so that an outlier costs the precision of its own block only. What differs:
//  - Codes are plain floats with gradual underflow rather than their dynamic trees: shifts and adds
//    instead of searches in a table, and all operations exact.
//  - The scale is a power of two, the least under which the largest code (1.875) holds the block's
//    largest magnitude, rather than that magnitude. Floats lose no precision by it, at most one of
//    their binades, and a code survives decoding and encoding unchanged.
//  - Rounding is stochastic rather than to nearest: a moment that decays by 0.1 % a step would
//    never leave its code otherwise.
//  - The first moment has a sign and 4 bits of exponent: down to 2^-17 of the scale. The second one
//    has 5 bits: down to 2^-33, which is 2^-16.5 of the root that Adam divides by; its precision is
//    that of roots with 4 bits each. Both reach equally far on purpose: a first moment rounded up
//    to its least code must not meet a second moment far below that. Rounding the second moment
//    itself, not its root, keeps it without bias; that of the root's variance would add up over the
//    1 / (1 - b2) steps that it averages.
//  - A second moment above 0 is never stored as 0, for the same reason.
#pragma once

#include <algorithm>

#include "longshore/models/ops/kernels/numbers.h"

namespace longshore::models {

inline constexpr int64_t kBlock8 = 256;        // elements that share a scale
inline constexpr int kBlock8DroppedBits = 20;  // of a float32's mantissa; random numbers have these
inline constexpr uint32_t kBlock8TopMantissa = 0x700000;  // of 1.875
inline constexpr float kBlock8LeastScale = 0x1p-116f;     // under which every code is a float32

// The scale of a block whose largest magnitude has these bits. 0 when all are 0; NaN, which every
// code then stands for, when one is infinite, NaN, or too large for a float32 scale.
LONGSHORE_INLINE float block8_scale(uint32_t largest_bits) {
  if (largest_bits == 0) return 0;
  uint32_t scale_bits = (largest_bits + (0x7fffff - kBlock8TopMantissa)) & 0x7f800000;
  if (scale_bits >= 0x7f800000) return std::bit_cast<float>(0x7fc00000);
  float scale = std::bit_cast<float>(scale_bits);
  return scale < kBlock8LeastScale ? kBlock8LeastScale : scale;
}

// Magnitudes relative to the scale: 0 to 1.875. Exponent field 0 is the range below `kLeastNormal`.
template <int kExponentBits>
struct Float8 {
  static constexpr uint32_t kNormalOffset = (128 - (1 << kExponentBits)) << 3;
  static constexpr uint32_t kSubnormalOffset = kNormalOffset + 8;
  static constexpr float kLeastNormal =
      std::bit_cast<float>(kSubnormalOffset << kBlock8DroppedBits);
  // From the float32 whose leading bits are a code's to the code's value; a power of two.
  static constexpr float kFromLeadingBits =
      std::bit_cast<float>((kNormalOffset << kBlock8DroppedBits) + 0x3f800000);

  // The same with the subnormal numbers of float32, which GPUs multiply as quickly as others.
  LONGSHORE_INLINE static float decode_by_subnormals(uint32_t code) {
    return std::bit_cast<float>(code << kBlock8DroppedBits) * kFromLeadingBits;
  }
  LONGSHORE_INLINE static uint32_t encode_by_subnormals(float magnitude, uint32_t random) {
    const uint32_t bits = std::bit_cast<uint32_t>(magnitude * (1.f / kFromLeadingBits));
    return (bits + random) >> kBlock8DroppedBits;
  }

  LONGSHORE_INLINE static float decode(uint32_t code) {
#ifdef __CUDA_ARCH__
    return decode_by_subnormals(code);
#endif
    bool normal = code >= 8;
    float value = std::bit_cast<float>((code + (normal ? kNormalOffset : kSubnormalOffset))
                                       << kBlock8DroppedBits);
    return value - (normal ? 0.f : kLeastNormal);
  }

  // `random`: kBlock8DroppedBits uniform bits.
  LONGSHORE_INLINE static uint32_t encode(float magnitude, uint32_t random) {
#ifdef __CUDA_ARCH__
    return encode_by_subnormals(magnitude, random);
#endif
    bool normal = magnitude >= kLeastNormal;
    // The sum's mantissa is the magnitude in steps of the least code.
    uint32_t bits = std::bit_cast<uint32_t>(magnitude + (normal ? 0.f : kLeastNormal));
    return ((bits + random) >> kBlock8DroppedBits) - (normal ? kNormalOffset : kSubnormalOffset);
  }
};

struct FirstMoment8 {
  using Magnitude = Float8<4>;

  LONGSHORE_INLINE static float decode(uint32_t code) {
    float magnitude = Magnitude::decode(code & 0x7f);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (code & 0x80) << 24);
  }
  LONGSHORE_INLINE static uint32_t encode(float value, float inverse_scale, uint32_t random) {
    return Magnitude::encode(std::fabs(value) * inverse_scale, random) |
           (std::bit_cast<uint32_t>(value) >> 31) << 7;
  }
};

struct SecondMoment8 {
  using Magnitude = Float8<5>;

  LONGSHORE_INLINE static float decode(uint32_t code) { return Magnitude::decode(code); }
  LONGSHORE_INLINE static uint32_t encode(float value, float inverse_scale, uint32_t random) {
    uint32_t code = Magnitude::encode(value * inverse_scale, random);
    return value > 0 && code == 0 ? 1 : code;
  }
};

// One block or the beginning of one. `Moment` is one of the two above.
template <class Moment>
LONGSHORE_INLINE void decode_block8(const uint8_t* codes, float scale, float* values,
                                    int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] = Moment::decode(codes[i]) * scale;
}

// Returns the scale.
template <class Moment>
LONGSHORE_INLINE float encode_block8(const float* values, const uint32_t* random, uint8_t* codes,
                                     int64_t count) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  float scale = block8_scale(largest);
  if (!(scale > 0)) {
    std::fill(codes, codes + count, uint8_t{0});
    return scale;
  }
  float inverse = 1.f / scale;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<uint8_t>(Moment::encode(values[i], inverse, random[i]));
  return scale;
}

}  // namespace longshore::models
