// Our custom kernels of rms_norm on a GPU. Rows are runs of `width` elements, as rms_norm.h has
// them; x, weight and what is made of x are float32 or bfloat16, statistics and weights' gradients
// float32.
#pragma once

#include <cmath>

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/norm_grad_body.h"

namespace longshore::models {

struct RmsNormArguments {
  Dtype dtype;
  int64_t rows, width;
  const void *x, *weight;
  float weight_offset, epsilon;
  void* y;
  float* rstd;  // one for each row
};

struct RmsNormGradArguments {
  Dtype dtype;
  int64_t rows, width;
  const void *dy, *x, *weight;
  float weight_offset;
  const float* rstd;
  const void* input_sum;  // null where there is none
  void* dx;
  // All three null where the weight has no gradient, weight_sum also where there is none yet.
  float* partials;  // norm_partials(rows) rows
  const float* weight_sum;
  float* dweight;
};

RmsNormArguments rms_norm_arguments(const KernelCall& call);
RmsNormGradArguments rms_norm_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_rms_norm(const RmsNormArguments& arguments, void* stream);
void launch_rms_norm_grad(const RmsNormGradArguments& arguments, void* stream);

// --- bodies, and how they are launched

template <class T, int kVector, class RowThreads>
struct RmsNormBody {
  static constexpr int kThreads = kBlockThreads;
  RmsNormArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t first = index * RowThreads::groups(group);
    RowThreads::on_each(group, [&](auto& part, int number) {
      if (first + number < a.rows) row(part, first + number);
    });
  }

  template <class Group>
  LONGSHORE_BODY void row(Group& group, int64_t row) const {
    const T* x = static_cast<const T*>(a.x) + row * a.width;
    const T* weight = static_cast<const T*>(a.weight);
    T* y = static_cast<T*>(a.y) + row * a.width;
    const float squares = sum(group, a.width / kVector, [&](int64_t i) {
      float values[kVector], result = 0;
      load_vector(x + i * kVector, values);
      for (float value : values) result += value * value;
      return result;
    });
    const float rstd = 1.f / std::sqrt(squares / static_cast<float>(a.width) + a.epsilon);
    group.once([&] { a.rstd[row] = rstd; });
    group.for_each(a.width / kVector, [&](int64_t i) {
      float values[kVector], weights[kVector];
      load_vector(x + i * kVector, values);
      load_vector(weight + i * kVector, weights);
      for (int k = 0; k < kVector; ++k)
        values[k] = values[k] * rstd * (a.weight_offset + weights[k]);
      store_vector(y + i * kVector, values);
    });
  }
};

template <class T, int kVector>
struct RmsNormGradRows {
  static constexpr int kVectorSize = kVector;
  RmsNormGradArguments a;

  template <class Group>
  LONGSHORE_BODY void grad_row(Group& group, int64_t row, float* sums) const {
    const int64_t at = row * a.width;
    const T* dy = static_cast<const T*>(a.dy) + at;
    const T* x = static_cast<const T*>(a.x) + at;
    const T* weight = static_cast<const T*>(a.weight);
    const T* input_sum = a.input_sum ? static_cast<const T*>(a.input_sum) + at : nullptr;
    T* dx = static_cast<T*>(a.dx) + at;
    const float rstd = a.rstd[row];
    const float dot = sum(group, a.width / kVector, [&](int64_t i) {
      float d[kVector], values[kVector], weights[kVector], result = 0;
      load_vector(dy + i * kVector, d);
      load_vector(x + i * kVector, values);
      load_vector(weight + i * kVector, weights);
      for (int k = 0; k < kVector; ++k) result += d[k] * (a.weight_offset + weights[k]) * values[k];
      return result;
    });
    const float shift = dot * rstd * rstd / static_cast<float>(a.width);
    group.for_each(a.width / kVector, [&](int64_t i) {
      float d[kVector], values[kVector], weights[kVector], before[kVector] = {};
      load_vector(dy + i * kVector, d);
      load_vector(x + i * kVector, values);
      load_vector(weight + i * kVector, weights);
      if (input_sum) load_vector(input_sum + i * kVector, before);
      if (sums) {
        float so_far[kVector];
        load_vector(sums + i * kVector, so_far);
        for (int k = 0; k < kVector; ++k) so_far[k] += d[k] * values[k] * rstd;
        store_vector(sums + i * kVector, so_far);
      }
      for (int k = 0; k < kVector; ++k) {
        const float grad = rstd * (d[k] * (a.weight_offset + weights[k]) - values[k] * shift);
        d[k] = input_sum ? before[k] + grad : grad;
      }
      store_vector(dx + i * kVector, d);
    });
  }
};

template <class Launcher>
void launch(const RmsNormArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.x, a.weight, a.y});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      const auto threads = launcher.template threads<RmsNormBody<T, kVector, WholeBlock>>();
      with_row_threads(a.width, a.width / kVector, threads,
                       [&]<class RowThreads>(int groups, RowThreads) {
                         launcher(RmsNormBody<T, kVector, RowThreads>{a}, ceil_div(a.rows, groups));
                       });
    });
  });
}

template <class Launcher>
void launch(const RmsNormGradArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 &&
                     all_aligned({a.dy, a.x, a.weight, a.input_sum, a.dx, a.partials});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launch_norm_grad(RmsNormGradRows<T, kVector>{a}, launcher);
    });
  });
}

}  // namespace longshore::models
