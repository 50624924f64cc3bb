// Our custom kernels on a GPU of experts' biases and their gradient.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

struct GroupedBiasArguments {
  Dtype dtype;  // float32 or bfloat16
  int64_t rows, width, experts;
  const void* y;
  const void* bias;     // [experts, width]
  const int32_t* ends;  // [experts]
  void* out;            // may be y
};

struct GroupedBiasGradArguments {
  Dtype dtype;  // of dy: float32 or bfloat16
  int64_t width, experts;
  const void* dy;
  const int32_t* ends;  // [experts]
  const float* so_far;  // null where there is no sum yet; may be dbias
  float* dbias;         // [experts, width]
};

// Rows of an expert that are added up apart, so that small terms of long sums are not lost.
inline constexpr int64_t kGroupedBiasRun = 64;

GroupedBiasArguments add_grouped_bias_arguments(const KernelCall& call);
GroupedBiasGradArguments add_grouped_bias_grad_arguments(const KernelCall& call);
// Into a cudaStream_t; throw Error when the launch fails.
void launch_add_grouped_bias(const GroupedBiasArguments& arguments, void* stream);
void launch_add_grouped_bias_grad(const GroupedBiasGradArguments& arguments, void* stream);

// --- bodies, and how they are launched

// A block has a few rows.
template <class T, int kVector>
struct GroupedBiasBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kRows = 4;
  GroupedBiasArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t first = index * kRows;
    const int64_t last = first + kRows < a.rows ? first + kRows : a.rows;
    int64_t expert =
        sum(group, a.experts - 1, [&](int64_t e) { return int64_t{a.ends[e] <= first}; });
    for (int64_t row = first; row < last; ++row) {
      while (expert < a.experts - 1 && a.ends[expert] <= row) ++expert;
      const T* y = static_cast<const T*>(a.y) + row * a.width;
      const T* bias = static_cast<const T*>(a.bias) + expert * a.width;
      T* out = static_cast<T*>(a.out) + row * a.width;
      group.for_each(a.width / kVector, [&](int64_t i) {
        float values[kVector], biases[kVector];
        load_vector(y + i * kVector, values);
        load_vector(bias + i * kVector, biases);
        for (int k = 0; k < kVector; ++k) values[k] += biases[k];
        store_vector(out + i * kVector, values);
      });
    }
  }
};

// A block sums some columns of an expert's rows: slices of the rows at the same time, each in
// order, and then the slices in order.
template <class T, int kVector>
struct GroupedBiasGradBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kVectors = 64;
  static constexpr int64_t kColumns = kVectors * kVector;
  GroupedBiasGradArguments a;
  int64_t column_blocks;

  static LONGSHORE_DEVICE int64_t slices(int threads) {
    return threads < kVectors ? 1 : threads / kVectors;
  }
  static int64_t scratch_bytes(int threads) {
    return slices(threads) * kColumns * static_cast<int64_t>(sizeof(float));
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t expert = index / column_blocks, column = index % column_blocks * kColumns;
    const int64_t columns = a.width - column < kColumns ? a.width - column : kColumns;
    const int64_t begin = expert == 0 ? 0 : a.ends[expert - 1], rows = a.ends[expert] - begin;
    const int64_t slices = this->slices(group.threads());
    float* slice_sums = group.template scratch<float>();
    group.for_each(slices * kVectors, [&](int64_t i) {
      const int64_t slice = i / kVectors, at = i % kVectors * kVector;
      if (at >= columns) return;
      const T* dy = static_cast<const T*>(a.dy) + column + at;
      const int64_t last = begin + rows * (slice + 1) / slices;
      float sums[kVector] = {};
      for (int64_t row = begin + rows * slice / slices; row < last;) {
        const int64_t stop = row + kGroupedBiasRun < last ? row + kGroupedBiasRun : last;
        float run[kVector] = {};
        LONGSHORE_UNROLL(4)
        for (; row < stop; ++row) {
          float values[kVector];
          load_vector(dy + row * a.width, values);
          for (int k = 0; k < kVector; ++k) run[k] += values[k];
        }
        for (int k = 0; k < kVector; ++k) sums[k] += run[k];
      }
      store_vector(slice_sums + slice * kColumns + at, sums);
    });
    group.sync();
    group.for_each(columns, [&](int64_t i) {
      float sum = 0;
      for (int64_t slice = 0; slice < slices; ++slice) sum += slice_sums[slice * kColumns + i];
      const int64_t to = expert * a.width + column + i;
      a.dbias[to] = a.so_far ? a.so_far[to] + sum : sum;
    });
  }
};

template <class Launcher>
void launch(const GroupedBiasArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.y, a.bias, a.out});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      using Body = GroupedBiasBody<T, kVector>;
      launcher(Body{a}, ceil_div(a.rows, Body::kRows));
    });
  });
}

template <class Launcher>
void launch(const GroupedBiasGradArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.dy});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      using Body = GroupedBiasGradBody<T, kVector>;
      const int64_t column_blocks = ceil_div(a.width, Body::kColumns);
      launcher(Body{a, column_blocks}, column_blocks * a.experts,
               Body::scratch_bytes(launcher.template threads<Body>()));
    });
  });
}

}  // namespace longshore::models
