#include "longshore/models/ops/quantized_linear/quantized_linear_cpu.h"

#include <algorithm>
#include <cstring>

#include "longshore/models/ops/dequantize/dequantize_cpu.h"
#include "longshore/models/ops/dequantize/dequantize_cpu_body.h"
#include "longshore/models/ops/kernels/matrix_vector.h"
#include "longshore/models/ops/quantized_linear/quantized_linear_kernels.h"

namespace longshore::models {
namespace {

// What all threads share. Numbers are made as float32s, which need no conversion before they are
// multiplied, and rounded to what x is kept in.
struct Product {
  DequantizeArguments of;
  const float* x;
  bool rounds_again;  // to bfloat16, after what the matrix's numbers are rounded to
};

LONGSHORE_INLINE void round_all(float* values, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] = to_float(to_bfloat16(values[i]));
}

// --- codes of 4 bits, which are looked up in registers

using Floats8 = float __attribute__((vector_size(32)));
constexpr int64_t kAtOnce = 32;  // numbers, in sums of their own that do not wait for each other

template <bool kUpperFirst>
LONGSHORE_INLINE void add_run(const float* scaled, const uint8_t* bytes, const float* x,
                              int64_t count, Floats8* sums) {
  for (int64_t i = 0; i < count; i += kAtOnce) {
    Floats8 numbers[kAtOnce / 8], factors[kAtOnce / 8];
    look_up<kUpperFirst>(scaled, bytes + i / 2, reinterpret_cast<float*>(numbers));
    look_up<kUpperFirst>(scaled, bytes + i / 2 + 8, reinterpret_cast<float*>(numbers + 2));
    std::memcpy(factors, x + i, sizeof factors);
    for (int k = 0; k < kAtOnce / 8; ++k) sums[k] += numbers[k] * factors[k];
  }
}

template <QuantizedFormat kFormat, class T>
LONGSHORE_INLINE void looked_up_body(const Product& p, int64_t first, int64_t last, T* y,
                                     Into into) {
  const QuantizedView& view = p.of.first;
  QuantizedMatrix m = p.of.matrix;
  m.format = kFormat;  // so that the compiler knows it
  for (int64_t row = first; row < last; ++row) {
    Floats8 sums[kAtOnce / 8] = {};
    const int64_t begin = row * m.columns, end = begin + m.columns;
    for (int64_t at = begin; at < end;) {
      const ScaledRun run = scaled_run(m, at, end, [&] { return MatrixPlace{row, at - begin}; });
      alignas(64) float scaled[16];
      scaled_book(p.of.book.data(), scale_of(m, view, run.block), m.rounded_to, scaled);
      if (p.rounds_again) round_all(scaled, 16);
      add_run<kFormat != QuantizedFormat::mxfp4>(scaled, view.codes + at / 2, p.x + (at - begin),
                                                 run.end - at, sums);
      at = run.end;
    }
    const Floats8 all = sums[0] + sums[1] + (sums[2] + sums[3]);
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += all[i];
    store(y[row], into == Into::add ? sum + load(y[row]) : sum);
  }
}

template <class T>
LONGSHORE_INLINE void looked_up_rows_body(const Product& p, int64_t first, int64_t last, T* y,
                                          Into into) {
  using enum QuantizedFormat;
  if (p.of.matrix.format == mxfp4)
    looked_up_body<mxfp4>(p, first, last, y, into);
  else
    looked_up_body<nf4>(p, first, last, y, into);
}

LONGSHORE_SIMD void looked_up_rows(const Product& p, int64_t first, int64_t last, float* y,
                                   Into into) {
  looked_up_rows_body(p, first, last, y, into);
}
LONGSHORE_SIMD void looked_up_rows(const Product& p, int64_t first, int64_t last, bfloat16* y,
                                   Into into) {
  looked_up_rows_body(p, first, last, y, into);
}

// Whether runs are whole numbers of kAtOnce, and begin with a byte.
bool can_look_up(const QuantizedMatrix& m) {
  return has_4_bits(m.format) && m.columns % kAtOnce == 0 && share_scales(m, kAtOnce);
}

// --- others, whose numbers are made in a tile that the first cache holds

constexpr int64_t kTileColumns = 1024;  // long, for what each part of a row costs by itself

// What is read after the part of the row at `place`: no processor foresees that. Inlined, since the
// compiler drops calls of what only prefetches.
LONGSHORE_INLINE void prefetch_next(const Product& p, MatrixPlace place, int64_t count) {
  const QuantizedMatrix& m = p.of.matrix;
  const bool is_last = place.column + kTileColumns >= m.columns;
  const MatrixPlace next = is_last ? MatrixPlace{place.row + kProductRows, 0}
                                   : MatrixPlace{place.row, place.column + kTileColumns};
  const int64_t number = next.row * m.columns + next.column;
  prefetch(m, p.of.first, scaled_run(m, number, number + count, [&] { return next; }), count);
}

template <class T>
void tiled_rows(const Product& p, int64_t first, int64_t last, T* y, Into into) {
  const int64_t columns = p.of.matrix.columns;
  alignas(64) float tile[kProductRows][kTileColumns] = {};
  for (int64_t row = first; row < last; row += kProductRows) {
    const int64_t rows = std::min(kProductRows, last - row);
    float sums[kProductRows] = {};
    for (int64_t begin = 0; begin < columns; begin += kTileColumns) {
      const int64_t count = std::min(kTileColumns, columns - begin);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = (row + r) * columns + begin;
        prefetch_next(p, {row + r, begin}, count);
        dequantize_numbers(p.of, p.of.first, at, at + count, tile[r]);
        if (p.rounds_again) round_all(tile[r], count);
      }
      add_products(count, tile[0], kTileColumns, p.x + begin, sums);
    }
    for (int64_t r = 0; r < rows; ++r)
      store(y[row + r], into == Into::add ? sums[r] + load(y[row + r]) : sums[r]);
  }
}

// --- both

// x as float32s: itself, or a copy.
const float* floats_of(const QuantizedLinearArguments& of, std::span<std::byte> workspace) {
  if (of.dtype == Dtype::float32) return static_cast<const float*>(of.x);
  auto* to = reinterpret_cast<float*>(workspace.data());
  const auto* x = static_cast<const bfloat16*>(of.x);
#pragma omp simd
  for (int64_t i = 0; i < of.matrix.columns; ++i) to[i] = to_float(x[i]);
  return to;
}

}  // namespace

int64_t quantized_linear_cpu_workspace(const std::any&, std::span<const Type> in,
                                       std::span<const Type>) {
  return in[0].dtype == Dtype::float32 ? 0 : in[0].shape.count() * int64_t{sizeof(float)};
}

void run_quantized_linear_cpu(const KernelCall& call) {
  const bool has_sum = call.in.size() == 3;
  if (has_sum && call.in[2].data != call.out[0].data)
    std::memcpy(call.out[0].data, call.in[2].data, static_cast<size_t>(call.out[0].type.bytes()));
  const QuantizedLinearArguments of = quantized_linear_arguments(call);
  Product p{.of = {.dtype = of.dtype,
                   .matrix = of.matrix,
                   .matrices = 1,
                   .bytes = call.in[1].type.bytes(),
                   .first = of.view,
                   .book = of.book,
                   .is_transposed = false,
                   .out = nullptr},
            .x = floats_of(of, call.workspace),
            .rounds_again = false};
  // The numbers are to be those of a matrix in x's dtype.
  if (of.dtype == Dtype::bfloat16) {
    RoundedTo& rounded_to = p.of.matrix.rounded_to;
    p.rounds_again =
        rounded_to == RoundedTo::float16 || of.matrix.format == QuantizedFormat::float32;
    if (rounded_to == RoundedTo::float32) rounded_to = RoundedTo::bfloat16;
  }
  const Into into = has_sum ? Into::add : Into::overwrite;
  with_float_type(of.dtype, [&]<class T>(T) {
    auto* y = static_cast<T*>(of.y);
    const int64_t rows = of.matrix.rows;
    parallel_ranges(ceil_div(rows, kProductRows), [&](int64_t first, int64_t last) {
      first *= kProductRows;
      last = std::min(last * kProductRows, rows);
      if (can_look_up(of.matrix))
        looked_up_rows(p, first, last, y, into);
      else
        tiled_rows(p, first, last, y, into);
    });
  });
}

}  // namespace longshore::models
