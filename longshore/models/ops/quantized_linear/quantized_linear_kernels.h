// Our custom kernel of quantized_linear on a GPU.
#pragma once

#include "longshore/models/ops/dequantize/dequantize_kernels.h"

namespace longshore::models {

struct QuantizedLinearArguments {
  Dtype dtype;  // of x, of the numbers and of y: float32 or bfloat16
  QuantizedMatrix matrix;
  QuantizedView view;
  CodeBook book;
  const void* x;    // [columns]
  const void* sum;  // [rows], or null
  void* y;          // [rows]
};

QuantizedLinearArguments quantized_linear_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_quantized_linear(const QuantizedLinearArguments& arguments, void* stream);

// --- the body, and how it is launched

// What a float is in T.
template <class T>
LONGSHORE_INLINE float as(float value) {
  T narrow;
  store(narrow, value);
  return load(narrow);
}

// So many lanes have a row of the matrix; numbers of a vector share a scale.
template <class T, int kVector>
struct QuantizedLinearBody {
  static constexpr int kThreads = kBlockThreads, kLanes = 32;
  QuantizedLinearArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const QuantizedMatrix& m = a.matrix;
    auto book = group.template scratch<float>();
    group.for_each(16, [&](int64_t i) { book[i] = a.book[static_cast<size_t>(i)]; });
    group.sync();
    const int64_t first = index * (group.threads() / kLanes);
    group.template split<kLanes>([&](auto& lanes, int64_t number) {
      const int64_t row = first + number;
      if (row >= m.rows) return;
      const float product = sum(lanes, m.columns / kVector, [&](int64_t i) {
        const int64_t at = row * m.columns + i * kVector;
        const float scale = view_scale(at);
        float x[kVector], result = 0;
        load_vector(static_cast<const T*>(a.x) + i * kVector, x);
        for (int k = 0; k < kVector; ++k)
          result += x[k] * as<T>(number_of(m, a.view, &book[0], at + k, scale));
        return result;
      });
      lanes.once([&] {
        const float before = a.sum ? load(static_cast<const T*>(a.sum)[row]) : 0;
        store(static_cast<T*>(a.y)[row], before + product);
      });
    });
  }

 private:
  LONGSHORE_INLINE float view_scale(int64_t at) const { return scale_at(a.matrix, a.view, at); }
};

template <class Launcher>
void launch(const QuantizedLinearArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    constexpr int64_t kVector = kVectorOf<T>;
    const bool fit =
        share_scales(a.matrix, kVector) && a.matrix.columns % kVector == 0 && all_aligned({a.x});
    with_vectors<T>(fit, [&]<int kWidth>(std::integral_constant<int, kWidth>) {
      using Body = QuantizedLinearBody<T, kWidth>;
      const int64_t rows = launcher.template threads<Body>() / Body::kLanes;
      launcher(Body{a}, ceil_div(a.matrix.rows, rows), 16 * static_cast<int64_t>(sizeof(float)));
    });
  });
}

}  // namespace longshore::models
