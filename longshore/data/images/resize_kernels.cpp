#include "longshore/data/images/resize_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "longshore/data/images/image.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace longshore::data {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

void resample_row_plain(const uint8_t* from, const ResizeWeights& weights, uint8_t* to) {
  const int32_t* w = weights.weights.data();
  for (int64_t first : weights.first) {
    const uint8_t* pixels = from + first * kChannels;
    int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (int64_t k = 0; k < weights.stride; ++k) {
      red += pixels[k * kChannels] * w[k];
      green += pixels[k * kChannels + 1] * w[k];
      blue += pixels[k * kChannels + 2] * w[k];
    }
    *to++ = to_byte(red);
    *to++ = to_byte(green);
    *to++ = to_byte(blue);
    w += weights.stride;
  }
}

// Inlined, so that it is compiled for its caller's processor.
inline __attribute__((always_inline)) void add_rows(const uint8_t* rows, int64_t row_bytes,
                                                    std::span<const int32_t> weights, uint8_t* to) {
  // The sums of so many bytes stay in registers.
  constexpr int kBlock = 32;
  int64_t at = 0;
  for (; at + kBlock <= row_bytes; at += kBlock) {
    int32_t sums[kBlock];
    std::fill_n(sums, kBlock, kHalf);
    const uint8_t* row = rows + at;
    for (int32_t weight : weights) {
#pragma omp simd
      for (int i = 0; i < kBlock; ++i) sums[i] += row[i] * weight;
      row += row_bytes;
    }
#pragma omp simd
    for (int i = 0; i < kBlock; ++i) to[at + i] = to_byte(sums[i]);
  }
  for (; at < row_bytes; ++at) {
    int32_t sum = kHalf;
    for (size_t k = 0; k < weights.size(); ++k)
      sum += rows[static_cast<int64_t>(k) * row_bytes + at] * weights[k];
    to[at] = to_byte(sum);
  }
}

void add_rows_plain(const uint8_t* rows, int64_t row_bytes, std::span<const int32_t> weights,
                    uint8_t* to) {
  add_rows(rows, row_bytes, weights, to);
}

constexpr ResizeKernels kPlain = {"plain", resample_row_plain, add_rows_plain};

#ifdef __x86_64__
// Compilers do not find the instruction that spreads bytes over lanes.
__attribute__((target("avx2"))) void resample_row_avx2(const uint8_t* from,
                                                       const ResizeWeights& weights, uint8_t* to) {
  // Of four pixels' bytes two pixels', each a lane of 32 bits; -1 is a zero. A pixel has a fourth
  // lane, which stays 0.
  const __m256i first_two =
      _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, -1, -1, -1, -1,  //
                       3, -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1, -1, -1, -1, -1);
  const __m256i last_two =
      _mm256_setr_epi8(6, -1, -1, -1, 7, -1, -1, -1, 8, -1, -1, -1, -1, -1, -1, -1,  //
                       9, -1, -1, -1, 10, -1, -1, -1, 11, -1, -1, -1, -1, -1, -1, -1);
  // Likewise of four weights.
  const __m256i first_weights = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m256i last_weights = _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3);
  const int32_t* w = weights.weights.data();
  for (int64_t first : weights.first) {
    const uint8_t* pixels = from + first * kChannels;
    __m256i sum = _mm256_setzero_si256(), other_sum = _mm256_setzero_si256();
    for (int64_t k = 0; k < weights.stride; k += kPixelGroup) {
      const __m256i four =
          _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + k)));
      // Twelve bytes, and not one more: the last row's end is the picture's.
      uint64_t eight_bytes;
      uint32_t four_bytes;
      std::memcpy(&eight_bytes, pixels + k * kChannels, sizeof eight_bytes);
      std::memcpy(&four_bytes, pixels + k * kChannels + 8, sizeof four_bytes);
      const __m256i bytes = _mm256_broadcastsi128_si256(
          _mm_set_epi64x(four_bytes, static_cast<int64_t>(eight_bytes)));
      sum = _mm256_add_epi32(sum,
                             _mm256_mullo_epi32(_mm256_shuffle_epi8(bytes, first_two),
                                                _mm256_permutevar8x32_epi32(four, first_weights)));
      other_sum = _mm256_add_epi32(
          other_sum, _mm256_mullo_epi32(_mm256_shuffle_epi8(bytes, last_two),
                                        _mm256_permutevar8x32_epi32(four, last_weights)));
    }
    sum = _mm256_add_epi32(sum, other_sum);
    __m128i pixel = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    pixel = _mm_srai_epi32(_mm_add_epi32(pixel, _mm_set1_epi32(kHalf)), kWeightBits);
    // With saturation, which cuts off at 0 and 255.
    pixel = _mm_packs_epi32(pixel, pixel);
    pixel = _mm_packus_epi16(pixel, pixel);
    const int32_t rgb = _mm_cvtsi128_si32(pixel);
    std::memcpy(to, &rgb, kChannels);
    to += kChannels;
    w += weights.stride;
  }
}

__attribute__((target("avx2"))) void add_rows_avx2(const uint8_t* rows, int64_t row_bytes,
                                                   std::span<const int32_t> weights, uint8_t* to) {
  add_rows(rows, row_bytes, weights, to);
}

constexpr std::array kAll = {ResizeKernels{"AVX2", resample_row_avx2, add_rows_avx2}, kPlain};
#else
constexpr std::array kAll = {kPlain};
#endif

}  // namespace

std::span<const ResizeKernels> resize_kernels() {
  std::span<const ResizeKernels> kernels = kAll;
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2")) kernels = kernels.last(1);
#endif
  return kernels;
}

}  // namespace longshore::data
