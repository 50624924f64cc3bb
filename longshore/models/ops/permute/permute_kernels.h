// Our custom kernels on a GPU that sort rows by their experts, copy tokens there, and sum what
// comes back.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

struct GroupByExpertArguments {
  int64_t rows, experts;
  const int32_t* expert;  // [rows]
  int32_t* order;         // [rows]
  int32_t* places;        // [rows]
  int32_t* ends;          // [experts]
  int32_t* next;          // [runs, experts]: an expert's rows of a run, then where the first goes
};

struct PermuteArguments {
  Dtype dtype;  // float32 or bfloat16
  int64_t rows, taken, width;
  const void* x;         // [rows / taken, width]
  const int32_t* order;  // [rows]
  void* out;             // [rows, width]
};

struct SumTokensArguments {
  Dtype dtype;  // float32 or bfloat16
  int64_t tokens, taken, width;
  const void* y;          // [tokens * taken, width]
  const int32_t* places;  // [tokens, taken]
  const float* weights;   // [tokens, taken]; null: all are 1
  const void* so_far;     // [tokens, width]; null where there is no sum yet; may be `out`
  void* out;              // [tokens, width]
};

struct CombineGradArguments {
  Dtype dtype;  // float32 or bfloat16
  int64_t rows, taken, width;
  const void* dout;      // [rows / taken, width]
  const void* y;         // [rows, width]
  const float* weights;  // [rows]
  const int32_t* order;  // [rows]
  void* dy;              // [rows, width]
  float* dweights;       // [rows]
};

// Rows that a block sorts.
inline constexpr int64_t kGroupRun = 512;

GroupByExpertArguments group_by_expert_arguments(const KernelCall& call);
PermuteArguments permute_tokens_arguments(const KernelCall& call);
SumTokensArguments permute_tokens_grad_arguments(const KernelCall& call);
SumTokensArguments combine_tokens_arguments(const KernelCall& call);
CombineGradArguments combine_tokens_grad_arguments(const KernelCall& call);
// Into a cudaStream_t; throw Error when the launch fails.
void launch_group_by_expert(const GroupByExpertArguments& arguments, void* stream);
void launch_permute_tokens(const PermuteArguments& arguments, void* stream);
void launch_sum_tokens(const SumTokensArguments& arguments, void* stream);
void launch_combine_tokens_grad(const CombineGradArguments& arguments, void* stream);

// --- bodies, and how they are launched

// f(row) for an expert's rows of a run in order.
template <class F>
LONGSHORE_BODY void for_rows_of(const GroupByExpertArguments& a, int64_t run, int64_t expert, F f) {
  const int64_t first = run * kGroupRun;
  const int64_t last = first + kGroupRun < a.rows ? first + kGroupRun : a.rows;
  LONGSHORE_UNROLL(8)
  for (int64_t row = first; row < last; ++row)
    if (a.expert[row] == expert) f(row);
}

// How many rows of a run each expert has.
struct CountRowsBody {
  static constexpr int kThreads = kBlockThreads;
  GroupByExpertArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t run) const {
    group.for_each(a.experts, [&](int64_t e) {
      int32_t count = 0;
      for_rows_of(a, run, e, [&](int64_t) { ++count; });
      a.next[run * a.experts + e] = count;
    });
  }
};

// Where the first of them goes: after the rows of earlier experts, and the expert's of earlier
// runs.
struct FirstPlacesBody {
  static constexpr int kThreads = kBlockThreads;
  GroupByExpertArguments a;
  int64_t runs;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t) const {
    group.for_each(a.experts, [&](int64_t e) {
      int32_t count = 0;
      LONGSHORE_UNROLL(8)
      for (int64_t run = 0; run < runs; ++run) count += a.next[run * a.experts + e];
      a.ends[e] = count;
    });
    group.sync();
    group.once([&] {
      for (int64_t e = 1; e < a.experts; ++e) a.ends[e] += a.ends[e - 1];
    });
    group.sync();
    group.for_each(a.experts, [&](int64_t e) {
      int32_t place = e == 0 ? 0 : a.ends[e - 1];
      LONGSHORE_UNROLL(8)
      for (int64_t run = 0; run < runs; ++run) {
        int32_t& next = a.next[run * a.experts + e];
        const int32_t count = next;
        next = place;
        place += count;
      }
    });
  }
};

struct PlaceRowsBody {
  static constexpr int kThreads = kBlockThreads;
  GroupByExpertArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t run) const {
    group.for_each(a.experts, [&](int64_t e) {
      int32_t place = a.next[run * a.experts + e];
      for_rows_of(a, run, e, [&](int64_t row) {
        a.places[row] = place;
        a.order[place++] = static_cast<int32_t>(row);
      });
    });
  }
};

// A block has one row.
template <class T, int kVector>
struct PermuteBody {
  static constexpr int kThreads = kBlockThreads;
  PermuteArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t row) const {
    const T* from = static_cast<const T*>(a.x) + a.order[row] / a.taken * a.width;
    T* to = static_cast<T*>(a.out) + row * a.width;
    group.for_each(a.width / kVector, [&](int64_t i) {
      *reinterpret_cast<Vector<T, kVector>*>(to + i * kVector) =
          *reinterpret_cast<const Vector<T, kVector>*>(from + i * kVector);
    });
  }
};

// A block has one token.
template <class T, int kVector>
struct SumTokensBody {
  static constexpr int kThreads = kBlockThreads;
  SumTokensArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t token) const {
    const int32_t* places = a.places + token * a.taken;
    group.for_each(a.width / kVector, [&](int64_t i) {
      const int64_t at = i * kVector;
      float sums[kVector] = {}, values[kVector];
      if (a.so_far) load_vector(static_cast<const T*>(a.so_far) + token * a.width + at, sums);
      for (int64_t j = 0; j < a.taken; ++j) {
        const float weight = a.weights ? a.weights[token * a.taken + j] : 1.f;
        load_vector(static_cast<const T*>(a.y) + places[j] * a.width + at, values);
        for (int k = 0; k < kVector; ++k) sums[k] += weight * values[k];
      }
      store_vector(static_cast<T*>(a.out) + token * a.width + at, sums);
    });
  }
};

// A block has one row.
template <class T, int kVector>
struct CombineGradBody {
  static constexpr int kThreads = kBlockThreads;
  CombineGradArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t row) const {
    const int64_t number = a.order[row];
    const T* dout = static_cast<const T*>(a.dout) + number / a.taken * a.width;
    const T* y = static_cast<const T*>(a.y) + row * a.width;
    T* dy = static_cast<T*>(a.dy) + row * a.width;
    const float weight = a.weights[number];
    const float product = sum(group, a.width / kVector, [&](int64_t i) {
      float d[kVector], values[kVector], result = 0;
      load_vector(dout + i * kVector, d);
      load_vector(y + i * kVector, values);
      for (int k = 0; k < kVector; ++k) {
        result += d[k] * values[k];
        d[k] *= weight;
      }
      store_vector(dy + i * kVector, d);
      return result;
    });
    group.once([&] { a.dweights[number] = product; });
  }
};

template <class Launcher>
void launch(const GroupByExpertArguments& a, const Launcher& launcher) {
  const int64_t runs = ceil_div(a.rows, kGroupRun);
  launcher(CountRowsBody{a}, runs);
  launcher(FirstPlacesBody{a, runs}, 1);
  launcher(PlaceRowsBody{a}, runs);
}

template <class Launcher>
void launch(const PermuteArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.x, a.out});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launcher(PermuteBody<T, kVector>{a}, a.rows);
    });
  });
}

template <class Launcher>
void launch(const SumTokensArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.y, a.so_far, a.out});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launcher(SumTokensBody<T, kVector>{a}, a.tokens);
    });
  });
}

template <class Launcher>
void launch(const CombineGradArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.dout, a.y, a.dy});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launcher(CombineGradBody<T, kVector>{a}, a.rows);
    });
  });
}

}  // namespace longshore::models
