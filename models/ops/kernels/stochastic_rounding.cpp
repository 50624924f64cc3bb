#include "models/ops/kernels/stochastic_rounding.h"

#include <cstring>

#include "models/ops/kernels/simd.h"

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LONGSHORE_PHILOX_AVX512
#include <immintrin.h>
#endif

namespace longshore::models {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
constexpr uint32_t kUse = static_cast<uint32_t>(RandomUse::rounding);

// The 64 bits of half a group, from element `at` on.
LONGSHORE_INLINE void split_rounding_bits(const uint32_t* a, const uint32_t* b, int64_t at,
                                          RoundingBits& bits) {
#pragma omp simd
  for (int lane = 0; lane < kRoundingPairs; ++lane) {
    const ElementBits element = element_bits(a[lane], b[lane]);
    bits.weight[at + lane] = element.weight;
    bits.states[0][at + lane] = element.states[0];
    bits.states[1][at + lane] = element.states[1];
  }
}

// The rounds are those of base/philox.h, on plain variables, so that a group's are computed at
// once.
LONGSHORE_SIMD void draw_plain(const RoundingStream& stream, int64_t first, RoundingBits& bits) {
  const uint32_t step = stream.step, sequence = stream.sequence;
  const uint32_t seed = static_cast<uint32_t>(stream.seed);
  const uint32_t seed_high = static_cast<uint32_t>(stream.seed >> 32);
  for (int64_t group = 0; group < RoundingBits::kCount; group += kRoundingGroup) {
    uint32_t a[kRoundingPairs], b[kRoundingPairs], c[kRoundingPairs], d[kRoundingPairs];
    const uint32_t pair = static_cast<uint32_t>((first + group) / 2);
#pragma omp simd
    for (int lane = 0; lane < kRoundingPairs; ++lane) {
      uint32_t c0 = pair + lane, c1 = step, c2 = sequence;
      uint32_t c3 = kUse, key0 = seed, key1 = seed_high;
#pragma GCC unroll 10
      for (int round = 0; round < 10; ++round) {
        uint64_t product0 = uint64_t{kMultiplier0} * c0, product1 = uint64_t{kMultiplier1} * c2;
        c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
        c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
        c1 = static_cast<uint32_t>(product1);
        c3 = static_cast<uint32_t>(product0);
        key0 += kKeyStep0;
        key1 += kKeyStep1;
      }
      a[lane] = c0, b[lane] = c1, c[lane] = c2, d[lane] = c3;
    }
    split_rounding_bits(a, b, group, bits);
    split_rounding_bits(c, d, group + kRoundingPairs, bits);
  }
}

#ifdef LONGSHORE_PHILOX_AVX512
// The same with the instruction that multiplies 32 by 32 bits, which GCC does not find for 512-bit
// vectors: the products it makes of 64 by 64 bits take three times as long. Words lie in the low
// halves of 64 bits; what is in the high halves is never read.
__attribute__((target("avx512f"), noinline)) void draw_avx512(const RoundingStream& stream,
                                                              int64_t first, RoundingBits& bits) {
  constexpr int kLanes = 8, kVectors = kRoundingPairs / kLanes;
  using Words = uint64_t __attribute__((vector_size(64)));
  using Halves = uint32_t __attribute__((vector_size(32)));
  const __m512i factor0 = _mm512_set1_epi64(kMultiplier0),
                factor1 = _mm512_set1_epi64(kMultiplier1);
  for (int64_t group = 0; group < RoundingBits::kCount; group += kRoundingGroup) {
    Words c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      c0[i] = Words{0, 1, 2, 3, 4, 5, 6, 7} + ((first + group) / 2 + i * kLanes);
      c1[i] = Words{} + stream.step;
      c2[i] = Words{} + stream.sequence;
      c3[i] = Words{} + kUse;
    }
    uint32_t key0 = static_cast<uint32_t>(stream.seed);
    uint32_t key1 = static_cast<uint32_t>(stream.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < kVectors; ++i) {
        // The form with a mask of ones: GCC 12 warns of what the plain one is made of.
        Words product0 = reinterpret_cast<Words>(
            _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(c0[i]), factor0));
        Words product1 = reinterpret_cast<Words>(
            _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(c2[i]), factor1));
        c0[i] = (product1 >> 32) ^ c1[i] ^ key0;
        c2[i] = (product0 >> 32) ^ c3[i] ^ key1;
        c1[i] = product1;
        c3[i] = product0;
      }
      key0 += kKeyStep0;
      key1 += kKeyStep1;
    }
    uint32_t words[4][kRoundingPairs];
    for (int i = 0; i < kVectors; ++i) {
      const Halves halves[4]{
          __builtin_convertvector(c0[i], Halves), __builtin_convertvector(c1[i], Halves),
          __builtin_convertvector(c2[i], Halves), __builtin_convertvector(c3[i], Halves)};
      for (int word = 0; word < 4; ++word)
        std::memcpy(words[word] + i * kLanes, &halves[word], sizeof(Halves));
    }
    split_rounding_bits(words[0], words[1], group, bits);
    split_rounding_bits(words[2], words[3], group + kRoundingPairs, bits);
  }
}
#endif

}  // namespace

void draw_rounding_bits(const RoundingStream& stream, int64_t first, RoundingBits& bits) {
#ifdef LONGSHORE_PHILOX_AVX512
  if (__builtin_cpu_supports("avx512f")) return draw_avx512(stream, first, bits);
#endif
  draw_plain(stream, first, bits);
}

}  // namespace longshore::models
