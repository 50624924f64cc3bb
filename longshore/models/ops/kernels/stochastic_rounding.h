// Stochastic rounding with Philox: where one of two neighbours must stand for a value, the farther
// one does so with the probability that makes the expectation the value. The random numbers are a
// pure function of their address, so results depend neither on threads nor on how a bucket is cut.
//
// The address of an element: RandomUse::rounding, the sequence, the step, and the element's index
// in its bucket; the key is the run's seed. One Philox block serves two elements, 32 apart in a
// group of 64, and each element's 64 bits serve the weight (16) and up to two states (20 each).
// Counter word 0 is the number of the pair and word 1 the step, each in all its 32 bits: no two
// addresses meet as long as a bucket has no more than 2^33 elements.
#pragma once

#include "longshore/base/philox.h"
#include "longshore/models/ops/kernels/numbers.h"

namespace longshore::models {

inline constexpr int64_t kRoundingGroup = 64;
inline constexpr int kRoundingPairs = kRoundingGroup / 2;
inline constexpr int64_t kMaxRounded = int64_t{1} << 33;  // elements of a bucket

struct RoundingStream {
  uint64_t seed;
  uint32_t sequence, step;
};

// The random bits for 256 elements.
struct RoundingBits {
  static constexpr int64_t kCount = 256;
  alignas(64) uint32_t weight[kCount];     // 16 bits
  alignas(64) uint32_t states[2][kCount];  // 20 bits
};

// The random bits for one element.
struct ElementBits {
  uint32_t weight, states[2];
};

// Takes an element's bits from its two words of a Philox block.
LONGSHORE_INLINE ElementBits element_bits(uint32_t a, uint32_t b) {
  return {a & 0xffff, {(a >> 16) | (b & 0xf) << 16, b >> 12}};
}

// The bits for a pair of elements: pair p is the elements 2 p - p % 32 and 2 p - p % 32 + 32.
struct PairBits {
  ElementBits low, high;
};
LONGSHORE_INLINE PairBits draw_pair_bits(const RoundingStream& stream, uint32_t pair) {
  const PhiloxBlock words =
      philox({pair, stream.step, stream.sequence, static_cast<uint32_t>(RandomUse::rounding)},
             {static_cast<uint32_t>(stream.seed), static_cast<uint32_t>(stream.seed >> 32)});
  return {element_bits(words[0], words[1]), element_bits(words[2], words[3])};
}

// The bits for the elements from `first` on, which is a multiple of the group.
void draw_rounding_bits(const RoundingStream& stream, int64_t first, RoundingBits& bits);

// Rounds to bfloat16 by 16 uniform bits. What bfloat16 can hold stays as it is, infinities and NaNs
// too; beyond its largest number lies infinity.
LONGSHORE_INLINE void store_stochastically(bfloat16& to, float value, uint32_t random) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  to.bits = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40 : (bits + random) >> 16);
}

}  // namespace longshore::models
