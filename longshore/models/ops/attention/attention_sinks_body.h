// The bodies of the kernels of attention's sinks, and how they are launched.
#pragma once

#include "longshore/models/ops/attention/attention_sinks.h"
#include "longshore/models/ops/kernels/column_sum_body.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/softmax_sum.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

// A block has one query of all heads.
template <class T, int kVector>
struct AttentionSinksBody {
  static constexpr int kThreads = kBlockThreads;
  AttentionSinksArguments a;

  int64_t scratch_bytes() const { return a.heads * static_cast<int64_t>(sizeof(float)); }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t row = index / a.length, query = index % a.length;
    const T* sinks = static_cast<const T*>(a.sinks);
    float* shares = group.template scratch<float>();  // that keys keep of each head's softmax
    group.for_each(a.heads, [&](int64_t head) {
      float& log_sum_exp = a.log_sum_exp[(row * a.heads + head) * a.length + query];
      SoftmaxSum all{.largest = log_sum_exp, .sum = 1};
      all.add({.largest = load(sinks[head]), .sum = 1});
      const float with_sink = all.log_sum_exp();
      shares[head] = exp_fast(log_sum_exp - with_sink);
      log_sum_exp = with_sink;
    });
    group.sync();
    T* context = static_cast<T*>(a.context) + index * a.heads * a.head_dim;
    group.for_each(a.heads * a.head_dim / kVector, [&](int64_t i) {
      float values[kVector];
      load_vector(context + i * kVector, values);
      const float share = shares[i * kVector / a.head_dim];
      for (float& value : values) value *= share;
      store_vector(context + i * kVector, values);
    });
  }
};

// A block sums a range of a row's queries, and some lanes of a warp one head at a time: each lane
// its vectors, of one query after the other.
template <class T, int kVector>
struct AttentionSinksGradBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kLanes = 8;  // a head of 64 is as many vectors of bfloat16
  AttentionSinksGradArguments a;
  int64_t ranges;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t row = index / ranges, range = index % ranges;
    const int64_t begin = a.length * range / ranges, end = a.length * (range + 1) / ranges;
    const int64_t heads_at_once = group.threads() / kLanes;
    group.template split<kLanes>([&](auto& part, int number) {
      for (int64_t head = number; head < a.heads; head += heads_at_once) {
        const float sink = load(static_cast<const T*>(a.sinks)[head]);
        const float* log_sum_exp = a.log_sum_exp + (row * a.heads + head) * a.length;
        const float total = sum(part, a.head_dim / kVector, [&](int64_t i) {
          float lane = 0;
          LONGSHORE_UNROLL(4)
          for (int64_t query = begin; query < end; ++query) {
            const int64_t at =
                ((row * a.length + query) * a.heads + head) * a.head_dim + i * kVector;
            float gradients[kVector], values[kVector];
            load_vector(static_cast<const T*>(a.dcontext) + at, gradients);
            load_vector(static_cast<const T*>(a.context) + at, values);
            float product = 0;
            for (int k = 0; k < kVector; ++k) product += gradients[k] * values[k];
            lane += product * exp_fast(sink - log_sum_exp[query]);
          }
          return lane;
        });
        part.once([&] { a.partials[index * a.heads + head] = -total; });
      }
    });
  }
};

template <class Launcher>
void launch(const AttentionSinksArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.head_dim % kVectorOf<T> == 0 && all_aligned({a.context});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      const AttentionSinksBody<T, kVector> body{a};
      launcher(body, a.rows * a.length, body.scratch_bytes());
    });
  });
}

template <class Launcher>
void launch(const AttentionSinksGradArguments& a, const Launcher& launcher) {
  const int64_t ranges = attention_sinks_ranges(a.rows, a.length);
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.head_dim % kVectorOf<T> == 0 && all_aligned({a.dcontext, a.context});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launcher(AttentionSinksGradBody<T, kVector>{a, ranges}, a.rows * ranges);
    });
  });
  launch_column_sum({a.partials, a.rows * ranges, a.heads, a.so_far, a.dsinks}, launcher);
}

}  // namespace longshore::models
