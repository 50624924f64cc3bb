// Our custom kernel on a GPU of a bias's gradient.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/column_sum_body.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

struct AddBiasGradArguments {
  Dtype dtype;  // of dy: float32 or bfloat16
  int64_t rows, width;
  const void* dy;
  float* partials;      // [add_bias_partials(rows), width]
  const float* so_far;  // null where there is no sum yet; may be dbias
  float* dbias;         // [width]
};

// Ranges of rows that are summed apart, then together in order.
inline int64_t add_bias_partials(int64_t rows) { return rows < 64 ? rows : 64; }

AddBiasGradArguments add_bias_grad_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_add_bias_grad(const AddBiasGradArguments& arguments, void* stream);

// --- bodies, and how they are launched

// A block sums some columns of a range of rows: slices of the range at the same time, each in
// order, and then the slices in order.
template <class T, int kVector>
struct RowRangeSumBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kVectors = 64;
  static constexpr int64_t kColumns = kVectors * kVector;
  AddBiasGradArguments a;
  int64_t column_blocks, ranges;

  static LONGSHORE_DEVICE int64_t slices(int threads) {
    return threads < kVectors ? 1 : threads / kVectors;
  }
  static int64_t scratch_bytes(int threads) {
    return slices(threads) * kColumns * static_cast<int64_t>(sizeof(float));
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t range = index / column_blocks, column = index % column_blocks * kColumns;
    const int64_t columns = a.width - column < kColumns ? a.width - column : kColumns;
    const int64_t begin = a.rows * range / ranges, rows = a.rows * (range + 1) / ranges - begin;
    const int64_t slices = this->slices(group.threads());
    float* slice_sums = group.template scratch<float>();
    group.for_each(slices * kVectors, [&](int64_t i) {
      const int64_t slice = i / kVectors, at = i % kVectors * kVector;
      if (at >= columns) return;
      const T* dy = static_cast<const T*>(a.dy) + column + at;
      float sums[kVector] = {};
      LONGSHORE_UNROLL(4)
      for (int64_t row = begin + rows * slice / slices; row < begin + rows * (slice + 1) / slices;
           ++row) {
        float values[kVector];
        load_vector(dy + row * a.width, values);
        for (int k = 0; k < kVector; ++k) sums[k] += values[k];
      }
      store_vector(slice_sums + slice * kColumns + at, sums);
    });
    group.sync();
    group.for_each(columns, [&](int64_t i) {
      float sum = 0;
      for (int64_t slice = 0; slice < slices; ++slice) sum += slice_sums[slice * kColumns + i];
      a.partials[range * a.width + column + i] = sum;
    });
  }
};

template <class Launcher>
void launch(const AddBiasGradArguments& a, const Launcher& launcher) {
  const int64_t ranges = add_bias_partials(a.rows);
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.dy});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      using Body = RowRangeSumBody<T, kVector>;
      const int64_t column_blocks = ceil_div(a.width, Body::kColumns);
      launcher(Body{a, column_blocks, ranges}, column_blocks * ranges,
               Body::scratch_bytes(launcher.template threads<Body>()));
    });
  });
  launch_column_sum({a.partials, ranges, a.width, a.so_far, a.dbias}, launcher);
}

}  // namespace longshore::models
