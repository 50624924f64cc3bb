#include "models/ops/dequantize/dequantize_cpu.h"

#include <cstring>

#include "models/ops/dequantize/dequantize_kernels.h"
#include "models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

// --- codes of 4 bits: what each stands for is looked up, 16 numbers at a time

using Codes8 = uint8_t __attribute__((vector_size(16)));
using Words2 = uint64_t __attribute__((vector_size(16)));
using Codes16 = uint16_t __attribute__((vector_size(32)));
using Words8 = uint32_t __attribute__((vector_size(32)));
using Shorts8 = uint16_t __attribute__((vector_size(16)));

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

// The codes of 8 bytes, in the order of the numbers.
template <bool kUpperFirst>
LONGSHORE_INLINE void spread(const uint8_t* bytes, Codes16& codes) {
  constexpr uint16_t kEven = kUpperFirst ? 0xffff : 0, kOdd = static_cast<uint16_t>(~kEven);
  constexpr Codes16 kUpper{kEven, kOdd, kEven, kOdd, kEven, kOdd, kEven, kOdd,
                           kEven, kOdd, kEven, kOdd, kEven, kOdd, kEven, kOdd};
  uint64_t all;
  std::memcpy(&all, bytes, sizeof all);
  const auto packed = reinterpret_cast<Codes8>(Words2{all, 0});
  const Codes8 twice =
      __builtin_shuffle(packed, Codes8{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7});
  const Codes16 wide = __builtin_convertvector(twice, Codes16);
  codes = ((wide >> 4) & kUpper) | (wide & 15 & ~kUpper);
}

LONGSHORE_INLINE void look_up(const bfloat16* book, const Codes16& codes, bfloat16* to) {
  Codes16 all;
  std::memcpy(&all, book, sizeof all);
  const Codes16 found = __builtin_shuffle(all, codes);
  std::memcpy(to, &found, sizeof found);
}

LONGSHORE_INLINE void look_up(const float* book, const Codes16& codes, float* to) {
  Words8 lower, upper;
  std::memcpy(&lower, book, sizeof lower);
  std::memcpy(&upper, book + 8, sizeof upper);
  Shorts8 halves[2];
  std::memcpy(halves, &codes, sizeof halves);
  for (int half = 0; half < 2; ++half) {
    const Words8 some = __builtin_convertvector(halves[half], Words8);
    const Words8 found = __builtin_shuffle(lower, upper, some);
    std::memcpy(to + half * 8, &found, sizeof found);
  }
}

template <bool kUpperFirst, class T>
LONGSHORE_INLINE void look_up_all(const uint8_t* bytes, const T* book, int64_t count, T* to) {
  for (int64_t i = 0; i < count; i += 16) {
    Codes16 codes;
    spread<kUpperFirst>(bytes + i / 2, codes);
    look_up(book, codes, to + i);
  }
}

template <class T>
LONGSHORE_INLINE void look_up_run(const QuantizedMatrix& m, const uint8_t* codes, const T* book,
                                  const ScaledRun& run, T* to) {
  const int64_t odd = m.first() % 2, count = run.end - run.first;
  auto one = [&](int64_t i) { to[i] = book[code4(m, codes, run.first + i)]; };
  // All that begins with a byte, 16 at a time.
  const int64_t first = std::min((odd + run.first) % 2, count), all = (count - first) / 16 * 16;
  const uint8_t* bytes = codes + (odd + run.first + first) / 2;
  if (first > 0) one(0);
  if (m.format == QuantizedFormat::mxfp4)
    look_up_all<false>(bytes, book, all, to + first);
  else
    look_up_all<true>(bytes, book, all, to + first);
  for (int64_t i = first + all; i < count; ++i) one(i);
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
LONGSHORE_INLINE void run_body(const DequantizeArguments& a, const QuantizedView& view,
                               const ScaledRun& run, T* to) {
  using enum QuantizedFormat;
  const QuantizedMatrix& m = a.matrix;
  const int64_t count = run.end - run.first;
  const uint8_t* codes = view.codes + run.first;
  if (m.format == float32)
    return convert_run(reinterpret_cast<const float*>(view.codes) + run.first, count, to);
  if (m.format == bfloat16)
    return convert_run(reinterpret_cast<const longshore::bfloat16*>(view.codes) + run.first, count,
                       to);
  const float scale = scale_of(m, view, run.block);
  if (has_4_bits(m.format)) {
    alignas(64) T book[16];
    scaled_book(a.book.data(), scale, m.rounded_to, book);
    return look_up_run(m, view.codes, book, run, to);
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

// Numbers [first, end) of a matrix, to `to` on.
template <class T>
LONGSHORE_INLINE void numbers_body(const DequantizeArguments& a, const QuantizedView& view,
                                   int64_t first, int64_t end, T* to) {
  for (int64_t at = first; at < end;) {
    const ScaledRun run = scaled_run(a.matrix, at, end);
    run_body(a, view, run, to + (at - first));
    at = run.end;
  }
}

}  // namespace

LONGSHORE_SIMD void dequantize_numbers(const DequantizeArguments& a, const QuantizedView& view,
                                       int64_t first, int64_t end, float* to) {
  numbers_body(a, view, first, end, to);
}
LONGSHORE_SIMD void dequantize_numbers(const DequantizeArguments& a, const QuantizedView& view,
                                       int64_t first, int64_t end, bfloat16* to) {
  numbers_body(a, view, first, end, to);
}

namespace {

template <class T>
void run_in_order(const DequantizeArguments& a) {
  constexpr int64_t kPart = 1 << 14;
  const int64_t count = a.matrix.count(), parts = ceil_div(count, kPart);
  parallel_ranges(a.matrices * parts, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t matrix = i / parts, first = i % parts * kPart;
      dequantize_numbers(a, view_of(a, matrix), first, std::min(first + kPart, count),
                         static_cast<T*>(a.out) + matrix * count + first);
    }
  });
}

template <class T>
void run_transposed(const DequantizeArguments& a) {
  constexpr int64_t kRows = 32, kColumns = 64;
  const auto [rows, columns] = std::pair(a.matrix.rows, a.matrix.columns);
  const int64_t strips = ceil_div(rows, kRows);
  parallel_ranges(a.matrices * strips, [&](int64_t begin, int64_t end) {
    T tile[kRows][kColumns];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t matrix = i / strips, top = i % strips * kRows;
      const int64_t bottom = std::min(top + kRows, rows);
      const QuantizedView view = view_of(a, matrix);
      T* out = static_cast<T*>(a.out) + matrix * rows * columns;
      for (int64_t left = 0; left < columns; left += kColumns) {
        const int64_t width = std::min(kColumns, columns - left);
        for (int64_t row = top; row < bottom; ++row)
          dequantize_numbers(a, view, row * columns + left, row * columns + left + width,
                             tile[row - top]);
        for (int64_t column = 0; column < width; ++column)
          for (int64_t row = top; row < bottom; ++row)
            out[(left + column) * rows + row] = tile[row - top][column];
      }
    }
  });
}

}  // namespace

void run_dequantize_cpu(const KernelCall& call) {
  const DequantizeArguments a = dequantize_arguments(call);
  with_float_type(a.dtype,
                  [&]<class T>(T) { a.is_transposed ? run_transposed<T>(a) : run_in_order<T>(a); });
}

}  // namespace longshore::models
