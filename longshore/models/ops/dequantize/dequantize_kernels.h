// Our custom kernels of dequantize on a GPU.
#pragma once

#include "longshore/base/quantization/dequantize.h"
#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

// Of `matrices` one after the other.
struct DequantizeArguments {
  Dtype dtype;  // float32 or bfloat16
  QuantizedMatrix matrix;
  int64_t matrices, bytes;  // of one matrix
  QuantizedView first;      // of the first matrix
  CodeBook book;            // of codes of 4 bits
  bool is_transposed;
  void* out;  // [matrices, rows, columns], or transposed [matrices, columns, rows]
};

DequantizeArguments dequantize_arguments(const KernelCall& call);

// Into a cudaStream_t; throws Error when the launch fails.
void launch_dequantize(const DequantizeArguments& arguments, void* stream);

// --- bodies, and how they are launched

// Of one of the matrices.
LONGSHORE_INLINE QuantizedView view_of(const DequantizeArguments& a, int64_t number) {
  const int64_t skipped = number * a.bytes;
  auto moved = [&](const float* part) {
    return part ? reinterpret_cast<const float*>(reinterpret_cast<const uint8_t*>(part) + skipped)
                : nullptr;
  };
  return {
      .codes = a.first.codes + skipped,
      .scales = a.first.scales ? static_cast<const uint8_t*>(a.first.scales) + skipped : nullptr,
      .nested_scales = moved(a.first.nested_scales),
      .nested_codes = moved(a.first.nested_codes),
      .nested_mean = moved(a.first.nested_mean)};
}

LONGSHORE_INLINE float scale_at(const QuantizedMatrix& m, const QuantizedView& view, int64_t i) {
  return view.scales ? scale_of(m, view, scaled_run(m, i, m.count()).block) : 1.f;
}

// A block has 8 numbers of each thread, or 8 vectors; those of a vector share a scale.
template <class T, int kVector>
struct DequantizeBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kVectors = 8 * kBlockThreads;
  DequantizeArguments a;

  static LONGSHORE_INLINE int64_t blocks_of_one(int64_t count) {
    return ceil_div(count, kVector * kVectors);
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const QuantizedMatrix& m = a.matrix;
    auto book = group.template scratch<float>();
    group.for_each(16, [&](int64_t i) { book[i] = a.book[static_cast<size_t>(i)]; });
    group.sync();
    const int64_t blocks = blocks_of_one(m.count()), matrix = index / blocks;
    const int64_t first = index % blocks * kVectors * kVector;
    const QuantizedView view = view_of(a, matrix);
    T* out = static_cast<T*>(a.out) + matrix * m.count();
    group.for_each(kVectors, [&](int64_t v) {
      const int64_t at = first + v * kVector;
      if (at >= m.count()) return;
      const float scale = scale_at(m, view, at);
      float values[kVector];
      for (int k = 0; k < kVector; ++k) values[k] = number_of(m, view, &book[0], at + k, scale);
      store_vector(out + at, values);
    });
  }
};

// A block has a square of a matrix, which it turns in fast memory.
template <class T>
struct TransposeBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kSide = 32, kStride = kSide + 1;
  DequantizeArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const QuantizedMatrix& m = a.matrix;
    auto book = group.template scratch<float>();
    float* square = &book[16];
    group.for_each(16, [&](int64_t i) { book[i] = a.book[static_cast<size_t>(i)]; });
    group.sync();
    const int64_t across = ceil_div(m.columns, kSide), down = ceil_div(m.rows, kSide);
    const int64_t matrix = index / (across * down), top = index / across % down * kSide,
                  left = index % across * kSide;
    const QuantizedView view = view_of(a, matrix);
    group.for_each(kSide * kSide, [&](int64_t i) {
      const int64_t row = top + i / kSide, column = left + i % kSide;
      if (row >= m.rows || column >= m.columns) return;
      const int64_t at = row * m.columns + column;
      square[i / kSide * kStride + i % kSide] =
          number_of(m, view, &book[0], at, scale_at(m, view, at));
    });
    group.sync();
    T* out = static_cast<T*>(a.out) + matrix * m.count();
    group.for_each(kSide * kSide, [&](int64_t i) {
      const int64_t row = top + i % kSide, column = left + i / kSide;
      if (row < m.rows && column < m.columns)
        store(out[column * m.rows + row], square[i % kSide * kStride + i / kSide]);
    });
  }
};

// Whether numbers [i, i + vector) share a scale and bytes, for every multiple i of `vector`.
inline bool share_scales(const QuantizedMatrix& m, int64_t vector) {
  if (m.first() % vector != 0 || m.count() % vector != 0) return false;
  return m.format == QuantizedFormat::nf4 || m.format == QuantizedFormat::fp4
             ? m.block % vector == 0
             : m.columns % vector == 0;
}

template <class Launcher>
void launch(const DequantizeArguments& a, const Launcher& launcher) {
  const QuantizedMatrix& m = a.matrix;
  with_float_type(a.dtype, [&]<class T>(T) {
    if (a.is_transposed) {
      using Body = TransposeBody<T>;
      const int64_t squares = ceil_div(m.columns, Body::kSide) * ceil_div(m.rows, Body::kSide);
      launcher(Body{a}, a.matrices * squares,
               (16 + Body::kSide * Body::kStride) * static_cast<int64_t>(sizeof(float)));
      return;
    }
    const bool fit = share_scales(m, kVectorOf<T>) && all_aligned({a.out});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      using Body = DequantizeBody<T, kVector>;
      launcher(Body{a}, a.matrices * Body::blocks_of_one(m.count()),
               16 * static_cast<int64_t>(sizeof(float)));
    });
  });
}

}  // namespace longshore::models
