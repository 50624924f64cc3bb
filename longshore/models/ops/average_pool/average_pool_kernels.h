// Our custom kernels of average_pool on a GPU.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

// Squares of side*side rows, and of (side/window)² windows.
struct AveragePoolArguments {
  Dtype dtype;  // float32 or bfloat16
  int64_t squares, side, window, width;
  const void* x;
  void* y;
};

struct AveragePoolGradArguments {
  Dtype dtype;
  int64_t squares, side, window, width;
  const void* dy;
  const void* input_sum;  // null where there is none yet; may be dx
  void* dx;
};

AveragePoolArguments average_pool_arguments(const KernelCall& call);
AveragePoolGradArguments average_pool_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_average_pool(const AveragePoolArguments& arguments, void* stream);
void launch_average_pool_grad(const AveragePoolGradArguments& arguments, void* stream);

// --- bodies, and how they are launched

// A block has one window, whose rows are added in order.
template <class T, int kVector>
struct AveragePoolBody {
  static constexpr int kThreads = kBlockThreads;
  AveragePoolArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t across = a.side / a.window, square = index / (across * across),
                  window = index % (across * across);
    const int64_t first = (square * a.side + window / across * a.window) * a.side +
                          window % across * a.window;  // row
    const T* x = static_cast<const T*>(a.x) + first * a.width;
    T* y = static_cast<T*>(a.y) + index * a.width;
    const auto rows = static_cast<float>(a.window * a.window);
    group.for_each(a.width / kVector, [&](int64_t i) {
      float sums[kVector] = {};
      for (int64_t down = 0; down < a.window; ++down)
        for (int64_t right = 0; right < a.window; ++right) {
          float values[kVector];
          load_vector(x + (down * a.side + right) * a.width + i * kVector, values);
          for (int k = 0; k < kVector; ++k) sums[k] += values[k];
        }
      for (float& sum : sums) sum /= rows;
      store_vector(y + i * kVector, sums);
    });
  }
};

// A block has one row of dx.
template <class T, int kVector>
struct AveragePoolGradBody {
  static constexpr int kThreads = kBlockThreads;
  AveragePoolGradArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t across = a.side / a.window, square = index / (a.side * a.side),
                  down = index / a.side % a.side, right = index % a.side;
    const int64_t window = (square * across + down / a.window) * across + right / a.window;
    const T* dy = static_cast<const T*>(a.dy) + window * a.width;
    const T* input_sum =
        a.input_sum ? static_cast<const T*>(a.input_sum) + index * a.width : nullptr;
    T* dx = static_cast<T*>(a.dx) + index * a.width;
    const auto rows = static_cast<float>(a.window * a.window);
    group.for_each(a.width / kVector, [&](int64_t i) {
      float values[kVector], before[kVector] = {};
      load_vector(dy + i * kVector, values);
      if (input_sum) load_vector(input_sum + i * kVector, before);
      for (int k = 0; k < kVector; ++k)
        values[k] = input_sum ? before[k] + values[k] / rows : values[k] / rows;
      store_vector(dx + i * kVector, values);
    });
  }
};

template <class Launcher>
void launch(const AveragePoolArguments& a, const Launcher& launcher) {
  const int64_t across = a.side / a.window;
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.x, a.y});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launcher(AveragePoolBody<T, kVector>{a}, a.squares * across * across);
    });
  });
}

template <class Launcher>
void launch(const AveragePoolGradArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.dy, a.input_sum, a.dx});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launcher(AveragePoolGradBody<T, kVector>{a}, a.squares * a.side * a.side);
    });
  });
}

}  // namespace longshore::models
