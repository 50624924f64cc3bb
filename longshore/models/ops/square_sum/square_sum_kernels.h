// Our own GPU kernels for the global gradient norm.
#pragma once

#include <cmath>

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

// Ranges that are summed apart, and then together: of 2^16 elements, or of more where that would
// be very many.
inline int64_t square_sum_partials(int64_t count) {
  const int64_t partials = (count + (1 << 16) - 1) >> 16;
  return partials < 4096 ? partials : 4096;
}

struct SquareSumArguments {
  int64_t count;
  const float* x;
  double* partials;  // [square_sum_partials(count)]
  double* result;    // a scalar
};

struct SumInOrderArguments {
  int64_t count;
  const double* x;
  double* result;
};

struct ClipArguments {
  int64_t count;
  const double* square_sums;
  double threshold;
  float *factor, *norm;
};

SquareSumArguments square_sum_arguments(const KernelCall& call);
SumInOrderArguments sum_in_order_arguments(const KernelCall& call);
ClipArguments clip_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_square_sum(const SquareSumArguments& arguments, void* stream);
void launch_sum_in_order(const SumInOrderArguments& arguments, void* stream);
void launch_clip(const ClipArguments& arguments, void* stream);

// --- bodies, and how they are launched

template <int kVector>
struct SquareSumBody {
  static constexpr int kThreads = kBlockThreads;
  SquareSumArguments a;
  int64_t range;  // elements of a block: a multiple of a vector

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t first = index * range, left = a.count - first;
    const int64_t count = left < 0 ? 0 : left < range ? left : range;
    const float* x = a.x + first;
    double squares = sum(group, count / kVector, [&](int64_t i) {
      float values[kVector];
      load_vector(x + i * kVector, values);
      double result = 0;
      for (float value : values) result += square(value);
      return result;
    });
    for (int64_t i = count / kVector * kVector; i < count; ++i) squares += square(x[i]);
    group.once([&] { a.partials[index] = squares; });
  }

  static LONGSHORE_DEVICE double square(float value) {
    return static_cast<double>(value) * static_cast<double>(value);
  }
};

struct PartialSumBody {
  static constexpr int kThreads = kBlockThreads;
  int64_t count;
  const double* partials;
  double* result;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t) const {
    const double all = sum(group, count, [&](int64_t i) { return partials[i]; });
    group.once([&] { *result = all; });
  }
};

// Few numbers, whose order matters: one thread adds them.
inline LONGSHORE_DEVICE double added_in_order(const double* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  return sum;
}

struct SumInOrderBody {
  static constexpr int kThreads = 32;
  SumInOrderArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t) const {
    group.once([&] { *a.result = added_in_order(a.x, a.count); });
  }
};

struct ClipBody {
  static constexpr int kThreads = 32;
  ClipArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t) const {
    group.once([&] {
      const double norm = std::sqrt(added_in_order(a.square_sums, a.count));
      const double factor = a.threshold > 0 && !(norm <= a.threshold) ? a.threshold / norm : 1;
      *a.factor = factor != factor ? 0.f : static_cast<float>(factor);
      *a.norm = static_cast<float>(norm);
    });
  }
};

template <class Launcher>
void launch(const SquareSumArguments& a, const Launcher& launcher) {
  const int64_t blocks = square_sum_partials(a.count);
  const int64_t range = ceil_div(ceil_div(a.count, blocks), kVectorOf<float>) * kVectorOf<float>;
  with_vectors<float>(all_aligned({a.x}), [&]<int kVector>(std::integral_constant<int, kVector>) {
    launcher(SquareSumBody<kVector>{a, range}, blocks);
  });
  launcher(PartialSumBody{blocks, a.partials, a.result}, 1);
}

template <class Launcher>
void launch(const SumInOrderArguments& a, const Launcher& launcher) {
  launcher(SumInOrderBody{a}, 1);
}

template <class Launcher>
void launch(const ClipArguments& a, const Launcher& launcher) {
  launcher(ClipBody{a}, 1);
}

}  // namespace longshore::models
