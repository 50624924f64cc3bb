#include "longshore/models/ops/kernels/philox_words.h"

#include <cstring>

#include "longshore/models/ops/kernels/simd.h"

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LONGSHORE_PHILOX_AVX512
#include <immintrin.h>
#endif

namespace longshore::models {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;

// The rounds are those of longshore/base/philox.h, on plain variables, so that all blocks' are
// computed at once.
LONGSHORE_SIMD void draw_plain(const PhiloxBlock& first, uint64_t seed, PhiloxWords& words) {
  const uint32_t first0 = first[0], first1 = first[1], first2 = first[2], first3 = first[3];
  const uint32_t seed_low = static_cast<uint32_t>(seed);
  const uint32_t seed_high = static_cast<uint32_t>(seed >> 32);
#pragma omp simd
  for (int lane = 0; lane < kPhiloxLanes; ++lane) {
    uint32_t c0 = first0 + static_cast<uint32_t>(lane), c1 = first1, c2 = first2, c3 = first3;
    uint32_t key0 = seed_low, key1 = seed_high;
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
    words.words[0][lane] = c0;
    words.words[1][lane] = c1;
    words.words[2][lane] = c2;
    words.words[3][lane] = c3;
  }
}

#ifdef LONGSHORE_PHILOX_AVX512
// The same with the instruction that multiplies 32 by 32 bits, which GCC does not find for 512-bit
// vectors: the products it makes of 64 by 64 bits take three times as long. Words lie in the low
// halves of 64 bits; what is in the high halves is never read.
__attribute__((target("avx512f"), noinline)) void draw_avx512(const PhiloxBlock& first,
                                                              uint64_t seed, PhiloxWords& words) {
  constexpr int kLanes = 8, kVectors = kPhiloxLanes / kLanes;
  using Words = uint64_t __attribute__((vector_size(64)));
  using Halves = uint32_t __attribute__((vector_size(32)));
  const __m512i factor0 = _mm512_set1_epi64(kMultiplier0),
                factor1 = _mm512_set1_epi64(kMultiplier1);
  Words c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    c0[i] = Words{0, 1, 2, 3, 4, 5, 6, 7} + (uint64_t{first[0]} + uint64_t(i * kLanes));
    c1[i] = Words{} + first[1];
    c2[i] = Words{} + first[2];
    c3[i] = Words{} + first[3];
  }
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
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
  for (int i = 0; i < kVectors; ++i) {
    const Halves halves[4]{
        __builtin_convertvector(c0[i], Halves), __builtin_convertvector(c1[i], Halves),
        __builtin_convertvector(c2[i], Halves), __builtin_convertvector(c3[i], Halves)};
    for (int word = 0; word < 4; ++word)
      std::memcpy(words.words[word] + i * kLanes, &halves[word], sizeof(Halves));
  }
}
#endif

}  // namespace

void draw_philox_words(const PhiloxBlock& first, uint64_t seed, PhiloxWords& words) {
#ifdef LONGSHORE_PHILOX_AVX512
  if (__builtin_cpu_supports("avx512f")) return draw_avx512(first, seed, words);
#endif
  draw_plain(first, seed, words);
}

}  // namespace longshore::models
