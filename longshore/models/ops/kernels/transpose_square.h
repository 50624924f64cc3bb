// transpose_square() is what loops that transpose a matrix in tiles are made of.
#pragma once

#include <emmintrin.h>

#include <cstring>
#include <type_traits>

#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

using Square4 = uint32_t __attribute__((vector_size(16)));
using Square8 = uint16_t __attribute__((vector_size(16)));

LONGSHORE_INLINE void interleave(Square4& a, Square4& b) {
  const Square4 first = __builtin_shuffle(a, b, Square4{0, 4, 1, 5});
  b = __builtin_shuffle(a, b, Square4{2, 6, 3, 7});
  a = first;
}
LONGSHORE_INLINE void interleave(Square8& a, Square8& b) {
  const Square8 first = __builtin_shuffle(a, b, Square8{0, 8, 1, 9, 2, 10, 3, 11});
  b = __builtin_shuffle(a, b, Square8{4, 12, 5, 13, 6, 14, 7, 15});
  a = first;
}

// A vector of each of as many rows as it has numbers, to as many columns; past the caches if so
// said, where `to` and the columns' distance are aligned as a vector is. Each row is interleaved
// with the one half of them further on: done once for each bit of their number, this makes rows
// columns.
template <bool kPastCaches, class T>
LONGSHORE_INLINE void transpose_square(const T* from, int64_t from_stride, T* to,
                                       int64_t to_stride) {
  constexpr int kSide = kVectorOf<T>;
  using Row = std::conditional_t<kSide == 4, Square4, Square8>;
  Row rows[kSide];
#pragma GCC unroll 8
  for (int i = 0; i < kSide; ++i) std::memcpy(&rows[i], from + i * from_stride, sizeof rows[i]);
#pragma GCC unroll 3
  for (int halved = kSide; halved > 1; halved /= 2) {
    Row before[kSide];
    std::memcpy(before, rows, sizeof before);
#pragma GCC unroll 4
    for (int i = 0; i < kSide / 2; ++i) {
      rows[2 * i] = before[i];
      rows[2 * i + 1] = before[i + kSide / 2];
      interleave(rows[2 * i], rows[2 * i + 1]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kSide; ++i)
    if (kPastCaches)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i * to_stride),
                       reinterpret_cast<__m128i>(rows[i]));
    else
      std::memcpy(to + i * to_stride, &rows[i], sizeof rows[i]);
}

}  // namespace longshore::models
