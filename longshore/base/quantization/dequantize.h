// Numbers of a QuantizedMatrix, from its codes and scales.
#pragma once

#include <algorithm>
#include <span>

#include "longshore/base/bfloat16.h"
#include "longshore/base/quantization/code_books.h"
#include "longshore/base/quantization/quantized_matrix.h"
#include "longshore/base/round_up.h"

namespace longshore {

// Where a matrix's parts are. Codes and scales need not be aligned to more than their own size.
struct QuantizedView {
  const uint8_t* codes = nullptr;
  const void* scales = nullptr;  // float32, or bytes: mxfp4's, and codes of nested ones
  const float* nested_scales = nullptr;
  const float* nested_codes = nullptr;  // [256]
  const float* nested_mean = nullptr;
};

// Of the parts that lie as parts_of() says.
QuantizedView view_of(const QuantizedMatrix& matrix, const std::byte* memory);

// Numbers of the matrix from `first` on, in rows, bit-identical to what bitsandbytes and
// transformers give for formats that they have.
void dequantize(const QuantizedMatrix& matrix, const QuantizedView& view, int64_t first,
                std::span<float> to);

// What codes of 4 bits stand for, relative to their scale.
const CodeBook& code_book(QuantizedFormat format);

// --- for kernels

// The scale of block `block`, counted from the matrix's first.
LONGSHORE_INLINE float scale_of(const QuantizedMatrix& m, const QuantizedView& view,
                                int64_t block) {
  if (m.format == QuantizedFormat::mxfp4)
    return e8m0_to_float(static_cast<const uint8_t*>(view.scales)[block]);
  if (!m.has_nested_scales) return static_cast<const float*>(view.scales)[block];
  const int64_t blocks_before =
      (m.first() >> std::countr_zero(static_cast<uint64_t>(m.block))) & (kNestedBlock - 1);
  // Through float64, in which products are exact, so that nothing fuses it with the sum.
  const double scaled =
      static_cast<double>(view.nested_codes[static_cast<const uint8_t*>(view.scales)[block]]) *
      view.nested_scales[(blocks_before + block) / kNestedBlock];
  return static_cast<float>(scaled) + *view.nested_mean;
}

// Numbers [first, end) of the matrix, which share a scale.
struct ScaledRun {
  int64_t first, end;
  int64_t block;  // the scale's, counted from the matrix's first
};

struct MatrixPlace {
  int64_t row, column;
};

// From number `first`, which lies there, to the end of its block of the row or to `end`.
LONGSHORE_INLINE ScaledRun run_in_row(const QuantizedMatrix& m, int64_t first, int64_t end,
                                      MatrixPlace place, int64_t block, int64_t row_of_scales) {
  const int64_t number = place.column / block, next = (number + 1) * block;
  const int64_t last = first - place.column + (next < m.columns ? next : m.columns);
  return {first, last < end ? last : end, row_of_scales * ceil_div(m.columns, block) + number};
}

// The one that begins with number `first`, as far as `end`. `place()` says where that number lies,
// in formats whose blocks are of rows.
template <class Place>
LONGSHORE_INLINE ScaledRun scaled_run(const QuantizedMatrix& m, int64_t first, int64_t end,
                                      Place place) {
  switch (m.format) {
    case QuantizedFormat::nf4:
    case QuantizedFormat::fp4: {
      const int shift = std::countr_zero(static_cast<uint64_t>(m.block));
      const int64_t before = m.first() & (m.block - 1), block = (before + first) >> shift;
      const int64_t last = ((block + 1) << shift) - before;
      return {first, last < end ? last : end, block};
    }
    case QuantizedFormat::mxfp4: {
      const MatrixPlace at = place();
      return run_in_row(m, first, end, at, kMxfp4Block, at.row);
    }
    case QuantizedFormat::int8: {
      const MatrixPlace at = place();
      return run_in_row(m, first, end, at, m.columns, at.row);
    }
    case QuantizedFormat::fp8: {
      const MatrixPlace at = place();
      return run_in_row(m, first, end, at, kFp8Block,
                        (m.first_row % kFp8Block + at.row) / kFp8Block);
    }
    default:
      return {first, end, 0};
  }
}

LONGSHORE_INLINE ScaledRun scaled_run(const QuantizedMatrix& m, int64_t first, int64_t end) {
  return scaled_run(m, first, end, [&] {
    return MatrixPlace{first / m.columns, first % m.columns};
  });
}

LONGSHORE_INLINE float rounded(float value, RoundedTo to) {
  if (to == RoundedTo::bfloat16) return to_float(to_bfloat16(value));
  return to == RoundedTo::float16 ? round_to_float16(value) : value;
}

// The code of 4 bits of number i of the matrix.
LONGSHORE_INLINE unsigned code4(const QuantizedMatrix& m, const uint8_t* codes, int64_t i) {
  const int64_t at = (m.first() & 1) + i;
  const bool is_upper = (at % 2 == 0) == (m.format != QuantizedFormat::mxfp4);
  return is_upper ? codes[at / 2] >> 4 : codes[at / 2] & 15u;
}

// What a code of 8 bits stands for, relative to its scale, of which int8's is 127.
LONGSHORE_INLINE float scaled8(QuantizedFormat format, uint8_t code, float scale) {
  if (format == QuantizedFormat::fp8) return e4m3_to_float(code) * scale;
  constexpr float k127th = 1.f / 127;
  return static_cast<float>(static_cast<int8_t>(code)) * scale * k127th;
}

// Number i of the matrix, whose scale is given. `book` is of its format, if that has 4 bits.
LONGSHORE_INLINE float number_of(const QuantizedMatrix& m, const QuantizedView& view,
                                 const float* book, int64_t i, float scale) {
  switch (m.format) {
    case QuantizedFormat::float32:
      return reinterpret_cast<const float*>(view.codes)[i];
    case QuantizedFormat::bfloat16:
      return to_float(reinterpret_cast<const bfloat16*>(view.codes)[i]);
    case QuantizedFormat::int8:
    case QuantizedFormat::fp8:
      return rounded(scaled8(m.format, view.codes[i], scale), m.rounded_to);
    default:
      return rounded(book[code4(m, view.codes, i)] * scale, m.rounded_to);
  }
}

}  // namespace longshore
