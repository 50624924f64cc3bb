// Our custom kernels of layer_norm on a GPU. x, weight, bias and what is made of x are float32 or
// bfloat16, statistics and weights' gradients float32.
#pragma once

#include <cmath>

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/norm_grad_body.h"

namespace longshore::models {

struct LayerNormArguments {
  Dtype dtype;
  int64_t rows, width;
  const void *x, *weight, *bias;
  float epsilon;
  void* y;
  float *mean, *rstd;  // one for each row
};

struct LayerNormGradArguments {
  Dtype dtype;
  int64_t rows, width;
  const void *dy, *x, *weight;
  const float *mean, *rstd;
  const void* input_sum;  // null where there is none
  void* dx;
  // All three null where the weight has no gradient, weight_sum also where there is none yet.
  float* partials;  // norm_partials(rows) rows
  const float* weight_sum;
  float* dweight;
};

LayerNormArguments layer_norm_arguments(const KernelCall& call);
LayerNormGradArguments layer_norm_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_layer_norm(const LayerNormArguments& arguments, void* stream);
void launch_layer_norm_grad(const LayerNormGradArguments& arguments, void* stream);

// --- bodies, and how they are launched

template <class T, int kVector, class RowThreads>
struct LayerNormBody {
  static constexpr int kThreads = kBlockThreads;
  LayerNormArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t first = index * RowThreads::groups(group);
    RowThreads::on_each(group, [&](auto& part, int number) {
      if (first + number < a.rows) row(part, first + number);
    });
  }

  // The variance is that of differences from the mean, in a pass of its own: from sums of squares
  // it would lose what the mean is larger by.
  template <class Group>
  LONGSHORE_BODY void row(Group& group, int64_t row) const {
    const T* x = static_cast<const T*>(a.x) + row * a.width;
    const auto width = static_cast<float>(a.width);
    const float mean = sum(group, a.width / kVector,
                           [&](int64_t i) {
                             float values[kVector], result = 0;
                             load_vector(x + i * kVector, values);
                             for (float value : values) result += value;
                             return result;
                           }) /
                       width;
    const float squares = sum(group, a.width / kVector, [&](int64_t i) {
      float values[kVector], result = 0;
      load_vector(x + i * kVector, values);
      for (float value : values) result += (value - mean) * (value - mean);
      return result;
    });
    const float rstd = 1.f / std::sqrt(squares / width + a.epsilon);
    group.once([&] { a.mean[row] = mean, a.rstd[row] = rstd; });
    const T *weight = static_cast<const T*>(a.weight), *bias = static_cast<const T*>(a.bias);
    T* y = static_cast<T*>(a.y) + row * a.width;
    group.for_each(a.width / kVector, [&](int64_t i) {
      float values[kVector], weights[kVector], biases[kVector];
      load_vector(x + i * kVector, values);
      load_vector(weight + i * kVector, weights);
      load_vector(bias + i * kVector, biases);
      for (int k = 0; k < kVector; ++k)
        values[k] = (values[k] - mean) * rstd * weights[k] + biases[k];
      store_vector(y + i * kVector, values);
    });
  }
};

template <class T, int kVector>
struct LayerNormGradRows {
  static constexpr int kVectorSize = kVector;
  LayerNormGradArguments a;

  // With n the normalised row and g = dy·w: dx = rstd (g - mean(g) - n mean(g·n)).
  template <class Group>
  LONGSHORE_BODY void grad_row(Group& group, int64_t row, float* sums) const {
    const int64_t at = row * a.width;
    const T* dy = static_cast<const T*>(a.dy) + at;
    const T* x = static_cast<const T*>(a.x) + at;
    const T* weight = static_cast<const T*>(a.weight);
    const T* input_sum = a.input_sum ? static_cast<const T*>(a.input_sum) + at : nullptr;
    T* dx = static_cast<T*>(a.dx) + at;
    const float mean = a.mean[row], rstd = a.rstd[row];
    auto sum_of = [&](auto term) {
      return sum(group, a.width / kVector, [&](int64_t i) {
        float d[kVector], values[kVector], weights[kVector], result = 0;
        load_vector(dy + i * kVector, d);
        load_vector(x + i * kVector, values);
        load_vector(weight + i * kVector, weights);
        for (int k = 0; k < kVector; ++k)
          result += term(d[k] * weights[k], (values[k] - mean) * rstd);
        return result;
      });
    };
    const auto width = static_cast<float>(a.width);
    const float gradient_mean = sum_of([](float gradient, float) { return gradient; }) / width;
    const float shift =
        sum_of([](float gradient, float normed) { return gradient * normed; }) / width;
    group.for_each(a.width / kVector, [&](int64_t i) {
      float d[kVector], values[kVector], weights[kVector], before[kVector] = {};
      load_vector(dy + i * kVector, d);
      load_vector(x + i * kVector, values);
      load_vector(weight + i * kVector, weights);
      if (input_sum) load_vector(input_sum + i * kVector, before);
      for (int k = 0; k < kVector; ++k) values[k] = (values[k] - mean) * rstd;
      if (sums) {
        float so_far[kVector];
        load_vector(sums + i * kVector, so_far);
        for (int k = 0; k < kVector; ++k) so_far[k] += d[k] * values[k];
        store_vector(sums + i * kVector, so_far);
      }
      for (int k = 0; k < kVector; ++k) {
        const float grad = rstd * (d[k] * weights[k] - gradient_mean - values[k] * shift);
        d[k] = input_sum ? before[k] + grad : grad;
      }
      store_vector(dx + i * kVector, d);
    });
  }
};

template <class Launcher>
void launch(const LayerNormArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.x, a.weight, a.bias, a.y});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      const auto threads = launcher.template threads<LayerNormBody<T, kVector, WholeBlock>>();
      with_row_threads(
          a.width, a.width / kVector, threads, [&]<class RowThreads>(int groups, RowThreads) {
            launcher(LayerNormBody<T, kVector, RowThreads>{a}, ceil_div(a.rows, groups));
          });
    });
  });
}

template <class Launcher>
void launch(const LayerNormGradArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 &&
                     all_aligned({a.dy, a.x, a.weight, a.input_sum, a.dx, a.partials});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launch_norm_grad(LayerNormGradRows<T, kVector>{a}, launcher);
    });
  });
}

}  // namespace longshore::models
