#include "longshore/trainer/weights/normal_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "longshore/base/philox.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::trainer {
namespace {

// log, sin and cos are series here: loops with libm's are not vectorised. Their first term left out
// is below 1e-17 of the result.

// For x >= 1.
LONGSHORE_INLINE double logarithm(double x) {
  // x = m * 2^exponent, m in [1/sqrt(2), sqrt(2)).
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  constexpr uint64_t kRootOfHalf = std::bit_cast<uint64_t>(std::numbers::sqrt2 / 2) & kFraction;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t from_root = bits - kRootOfHalf;
  const auto exponent = static_cast<int32_t>(from_root >> 52) - 1022;
  const double m =
      std::bit_cast<double>((from_root & kFraction) + (uint64_t{1022} << 52) + kRootOfHalf);
  // log m = 2 artanh s = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172.
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 1. / 21;
#pragma GCC unroll 10
  for (int k = 19; k >= 1; k -= 2) sum = sum * s2 + 1. / k;
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

// For |x| <= pi/4.
LONGSHORE_INLINE double sine(double x) {
  double sum = 1;
#pragma GCC unroll 8
  for (int k = 16; k >= 2; k -= 2) sum = 1 - x * x * (1. / (k * (k + 1))) * sum;
  return x * sum;
}
LONGSHORE_INLINE double cosine(double x) {
  double sum = 1;
#pragma GCC unroll 8
  for (int k = 16; k >= 2; k -= 2) sum = 1 - x * x * (1. / (k * (k - 1))) * sum;
  return sum;
}

LONGSHORE_INLINE void normal_pair(uint32_t a, uint32_t b, double deviation, float& one,
                                  float& other) {
  // sqrt(-2 log u), u = (a + 1/2) / 2^32.
  const double log_u = logarithm(2. * a + 1) - 33 * std::numbers::ln2;
  const double radius = std::sqrt(-2 * log_u) * deviation;
  // The angle, (b + 1/2) / 2^32 of a turn, as quarters of a turn and an eighth at most.
  const uint32_t quarters = (b + (1u << 29)) >> 30;
  const double rest = static_cast<int32_t>(b - (quarters << 30)) + 0.5;
  const double x = rest * (std::numbers::pi / 2147483648.0);
  const double s = sine(x), c = cosine(x);
  const double cos_angle = quarters & 1 ? -s : c, sin_angle = quarters & 1 ? c : s;
  const double sign = quarters & 2 ? -radius : radius;
  one = static_cast<float>(sign * cos_angle);
  other = static_cast<float>(sign * sin_angle);
}

constexpr int kBatch = 64;  // blocks of four numbers that are made at a time

LONGSHORE_SIMD void normal_blocks(uint64_t seed, uint32_t sequence, uint64_t first_block,
                                  double deviation, float (&to)[kBatch][4]) {
  PhiloxBlock random[kBatch];
#pragma omp simd
  for (int i = 0; i < kBatch; ++i)
    random[i] = philox(seed, RandomUse::initial_weights, sequence, first_block + i);
#pragma omp simd
  for (int i = 0; i < kBatch; ++i) {
    normal_pair(random[i][0], random[i][1], deviation, to[i][0], to[i][1]);
    normal_pair(random[i][2], random[i][3], deviation, to[i][2], to[i][3]);
  }
}

}  // namespace

void normal_numbers(uint64_t seed, uint32_t sequence, int64_t first, double standard_deviation,
                    std::span<float> values) {
  constexpr int64_t kNumbers = int64_t{4} * kBatch;
  const int64_t end = first + std::ssize(values);
  float batch[kBatch][4];
  for (int64_t begin = first / 4 * 4; begin < end; begin += kNumbers) {
    normal_blocks(seed, sequence, static_cast<uint64_t>(begin / 4), standard_deviation, batch);
    const int64_t from = std::max(first, begin), to = std::min(end, begin + kNumbers);
    std::copy(&batch[0][0] + (from - begin), &batch[0][0] + (to - begin),
              values.begin() + (from - first));
  }
}

}  // namespace longshore::trainer
