// Loops of the CPU's kernels of dequantize, for functions that are compiled for each instruction
// set.
#pragma once

#include <cstring>

#include "longshore/base/bfloat16.h"
#include "longshore/models/ops/dequantize/dequantize_kernels.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {

// --- codes of 4 bits: what each stands for is looked up, 16 numbers at a time

using Halves16 = uint16_t __attribute__((vector_size(32)));
using Words8 = uint32_t __attribute__((vector_size(32)));
using Longs4 = uint64_t __attribute__((vector_size(32)));

template <bool kToBfloat16, class T>
LONGSHORE_INLINE void scaled_body(const float* book, float scale, T* to) {
#pragma omp simd
  for (int i = 0; i < 16; ++i) {
    const float value = book[i] * scale;
    store(to[i], kToBfloat16 ? to_float(to_bfloat16(value)) : value);
  }
}

template <class T>
LONGSHORE_INLINE void scaled_book(const float* book, float scale, RoundedTo rounded_to, T* to) {
  if (rounded_to == RoundedTo::float16)
    for (int i = 0; i < 16; ++i) store(to[i], round_to_float16(book[i] * scale));
  else if (rounded_to == RoundedTo::bfloat16 && sizeof(T) > sizeof(bfloat16))
    scaled_body<true>(book, scale, to);
  else
    scaled_body<false>(book, scale, to);
}

// What the codes of 8 bytes stand for.
template <bool kUpperFirst>
LONGSHORE_INLINE void look_up(const bfloat16* book, const uint8_t* bytes, bfloat16* to) {
  // Each half has four codes; such a product has one of them in its upper bits.
  constexpr uint16_t kFirst = kUpperFirst ? 1 << 8 : 1 << 12,
                     kSecond = kUpperFirst ? 1 << 12 : 1 << 8;
  constexpr Halves16 kFactors{
      kFirst, kSecond, kFirst >> 8, kSecond >> 8, kFirst, kSecond, kFirst >> 8, kSecond >> 8,
      kFirst, kSecond, kFirst >> 8, kSecond >> 8, kFirst, kSecond, kFirst >> 8, kSecond >> 8};
  Halves16 all;
  std::memcpy(&all, book, sizeof all);
  uint64_t codes;
  std::memcpy(&codes, bytes, sizeof codes);
  const auto halves = reinterpret_cast<Halves16>(codes + Longs4{});
  const Halves16 of_each =
      __builtin_shuffle(halves, Halves16{0, 0, 0, 0, 1, 1, 1, 1, 10, 10, 10, 10, 11, 11, 11, 11});
  const Halves16 found = __builtin_shuffle(all, of_each * kFactors >> 12);
  std::memcpy(to, &found, sizeof found);
}

template <bool kUpperFirst>
LONGSHORE_INLINE void look_up(const float* book, const uint8_t* bytes, float* to) {
  constexpr uint32_t kFirst = kUpperFirst ? 4 : 0, kSecond = 4 - kFirst;
  constexpr Words8 kShifts{kFirst,      kSecond,      kFirst + 8,  kSecond + 8,
                           kFirst + 16, kSecond + 16, kFirst + 24, kSecond + 24};
  Words8 lower, upper;
  std::memcpy(&lower, book, sizeof lower);
  std::memcpy(&upper, book + 8, sizeof upper);
  for (int half = 0; half < 2; ++half) {
    uint32_t codes;
    std::memcpy(&codes, bytes + half * 4, sizeof codes);
    // Only the lowest 4 bits of an index count.
    const Words8 found = __builtin_shuffle(lower, upper, (codes + Words8{}) >> kShifts);
    std::memcpy(to + half * 8, &found, sizeof found);
  }
}

template <bool kUpperFirst, class T>
LONGSHORE_INLINE void look_up_all(const uint8_t* bytes, const T* book, int64_t count, T* to) {
  for (int64_t i = 0; i < count; i += 16) look_up<kUpperFirst>(book, bytes + i / 2, to + i);
}

template <class T>
LONGSHORE_INLINE void look_up_run(const QuantizedMatrix& m, const uint8_t* codes, const T* book,
                                  const ScaledRun& run, T* to) {
  const int64_t odd = m.first() & 1, count = run.end - run.first;
  // All that begins with a byte, 16 at a time.
  const int64_t first = std::min((odd + run.first) & 1, count), all = (count - first) & ~15;
  const uint8_t* bytes = codes + ((odd + run.first + first) >> 1);
  if (first > 0) to[0] = book[code4(m, codes, run.first)];
  if (m.format == QuantizedFormat::mxfp4)
    look_up_all<false>(bytes, book, all, to + first);
  else
    look_up_all<true>(bytes, book, all, to + first);
  for (int64_t i = first + all; i < count; ++i) to[i] = book[code4(m, codes, run.first + i)];
}

// --- others

template <QuantizedFormat format, bool kToBfloat16, class T>
LONGSHORE_INLINE void multiply_run(const uint8_t* codes, float scale, int64_t count, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float value = scaled8(format, codes[i], scale);
    store(to[i], kToBfloat16 ? to_float(to_bfloat16(value)) : value);
  }
}

template <class From, class T>
LONGSHORE_INLINE void convert_run(const From* from, int64_t count, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(to[i], load(from[i]));
}

template <class T>
LONGSHORE_INLINE void run_body(const QuantizedMatrix& m, const CodeBook& book,
                               const QuantizedView& view, const ScaledRun& run, T* to) {
  using enum QuantizedFormat;
  const int64_t count = run.end - run.first;
  const uint8_t* codes = view.codes + run.first;
  if (m.format == float32)
    return convert_run(reinterpret_cast<const float*>(view.codes) + run.first, count, to);
  if (m.format == bfloat16)
    return convert_run(reinterpret_cast<const longshore::bfloat16*>(view.codes) + run.first, count,
                       to);
  const float scale = scale_of(m, view, run.block);
  if (has_4_bits(m.format)) {
    alignas(64) T scaled[16];
    scaled_book(book.data(), scale, m.rounded_to, scaled);
    return look_up_run(m, view.codes, scaled, run, to);
  }
  if (m.rounded_to == RoundedTo::float16) {
    for (int64_t i = 0; i < count; ++i)
      store(to[i], round_to_float16(scaled8(m.format, codes[i], scale)));
  } else if (m.rounded_to == RoundedTo::bfloat16) {
    m.format == int8 ? multiply_run<int8, true>(codes, scale, count, to)
                     : multiply_run<fp8, true>(codes, scale, count, to);
  } else {
    m.format == int8 ? multiply_run<int8, false>(codes, scale, count, to)
                     : multiply_run<fp8, false>(codes, scale, count, to);
  }
}

// Part of a matrix: `count` numbers from `first` on, and as many below each of them.
struct Piece {
  MatrixPlace first;
  int64_t count, rows = 1;
};

// The codes and the scale with which a run of `count` numbers begins.
LONGSHORE_INLINE void prefetch(const QuantizedMatrix& m, const QuantizedView& view,
                               const ScaledRun& run, int64_t count) {
  using enum QuantizedFormat;
  const int64_t bits = has_4_bits(m.format)   ? 4
                       : m.format == float32  ? 32
                       : m.format == bfloat16 ? 16
                                              : 8;
  for (int64_t at = run.first * bits / 8; at < (run.first + count) * bits / 8; at += 64)
    __builtin_prefetch(view.codes + at);
  if (!view.scales) return;
  const int64_t bytes = m.format == mxfp4 || m.has_nested_scales ? 1 : sizeof(float);
  __builtin_prefetch(static_cast<const uint8_t*>(view.scales) + run.block * bytes);
}

// The numbers of a piece of a matrix of this format, to rows that lie `stride` apart. What the
// piece below it has comes into the cache meanwhile: no processor foresees that.
template <QuantizedFormat kFormat, class T>
LONGSHORE_INLINE void numbers_of(const DequantizeArguments& a, const QuantizedView& view,
                                 const Piece& piece, T* to, int64_t stride) {
  QuantizedMatrix m = a.matrix;
  m.format = kFormat;  // so that the compiler knows it
  for (int64_t i = 0; i < piece.rows; ++i) {
    auto [row, column] = piece.first;
    row += i;
    const int64_t first = row * m.columns + column, end = first + piece.count;
    if (piece.rows > 1) {
      const MatrixPlace below{row + piece.rows, column};
      const int64_t number = first + piece.rows * m.columns;
      prefetch(m, view, scaled_run(m, number, number + piece.count, [&] { return below; }),
               piece.count);
    }
    for (int64_t at = first; at < end;) {
      const ScaledRun run = scaled_run(m, at, end, [&] { return MatrixPlace{row, column}; });
      run_body(m, a.book, view, run, to + i * stride + (at - first));
      at = run.end;
      // Where runs go beyond the end of a row, the format has no use for places.
      column += run.end - run.first;
      if (column == m.columns) {
        ++row;
        column = 0;
      }
    }
  }
}

template <class T>
LONGSHORE_INLINE void numbers_body(const DequantizeArguments& a, const QuantizedView& view,
                                   const Piece& piece, T* to, int64_t stride = 0) {
  using enum QuantizedFormat;
  switch (a.matrix.format) {
    case nf4:
    case fp4:
      return numbers_of<nf4>(a, view, piece, to, stride);
    case mxfp4:
      return numbers_of<mxfp4>(a, view, piece, to, stride);
    case int8:
      return numbers_of<int8>(a, view, piece, to, stride);
    case fp8:
      return numbers_of<fp8>(a, view, piece, to, stride);
    case bfloat16:
      return numbers_of<bfloat16>(a, view, piece, to, stride);
    case float32:
      return numbers_of<float32>(a, view, piece, to, stride);
  }
}

}  // namespace longshore::models
