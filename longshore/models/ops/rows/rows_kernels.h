// Our custom kernel on a GPU that moves rows by their places.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

enum class RowMove : uint8_t { take, replace, clear };

struct RowsArguments {
  RowMove move;
  Dtype dtype;  // float32 or bfloat16
  int64_t count, width;
  const int32_t* places;  // [count]
  const void* rows;       // what places are in, or of `replace` what goes there; null of `clear`
  // Of `take` [count, width]. Else what places are in, `x_bytes`, copied from x where that is
  // another.
  void* out;
  const void* x = nullptr;
  int64_t x_bytes = 0;
};

RowsArguments take_rows_arguments(const KernelCall& call);
RowsArguments replace_rows_arguments(const KernelCall& call);
RowsArguments clear_rows_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_rows(const RowsArguments& arguments, void* stream);

// --- bodies, and how they are launched

// A block has one row.
template <class T, int kVector>
struct RowsBody {
  static constexpr int kThreads = kBlockThreads;
  RowsArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const bool takes = a.move == RowMove::take;
    const int64_t place = a.places[index];
    if (place < 0 && !takes) return;
    const bool clears = place < 0 || a.move == RowMove::clear;
    const T* from = static_cast<const T*>(a.rows) + (takes ? place : index) * a.width;
    T* to = static_cast<T*>(a.out) + (takes ? index : place) * a.width;
    group.for_each(a.width / kVector, [&](int64_t i) {
      Vector<T, kVector> vector{};
      if (!clears) vector = *reinterpret_cast<const Vector<T, kVector>*>(from + i * kVector);
      *reinterpret_cast<Vector<T, kVector>*>(to + i * kVector) = vector;
    });
  }
};

template <class Launcher>
void launch(const RowsArguments& a, const Launcher& launcher) {
  if (a.x != nullptr && a.x != a.out) launcher.copy(a.out, a.x, a.x_bytes);
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.rows, a.out});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launcher(RowsBody<T, kVector>{a}, a.count);
    });
  });
}

}  // namespace longshore::models
