// The bodies of attention's custom kernels by blocks of scores, and how they are launched.
#pragma once

#include <cmath>

#include "longshore/models/ops/attention/attention_blocks.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/softmax_sum.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

inline constexpr int kScoresVector = kVectorOf<float>;

// One query's scores with one head's keys: scaled, capped, and -infinity where it does not see the
// key.
struct ScoresOfQuery {
  const AttentionScores& a;
  int64_t head, row;

  LONGSHORE_DEVICE ScoresOfQuery(const AttentionScores& scores, int64_t index)
      : a(scores), head(index / scores.block.queries), row(index % scores.block.queries) {}

  LONGSHORE_DEVICE int64_t offset() const { return (head * a.block.queries + row) * a.block.width; }
  LONGSHORE_DEVICE int64_t vectors() const { return a.block.width / kScoresVector; }

  LONGSHORE_DEVICE void load(int64_t vector, float (&values)[kScoresVector]) const {
    load_vector(a.scores + offset() + vector * kScoresVector, values);
    for (int k = 0; k < kScoresVector; ++k) {
      const int64_t key = vector * kScoresVector + k;
      const bool is_seen =
          key < a.block.keys && a.rule.sees(a.block.query + row, a.block.key + key);
      values[k] = is_seen ? soft_capped(values[k] * a.scale, a.soft_cap) : -INFINITY;
    }
  }
};

// A block of threads has one query of one head.
template <class T>
struct AttentionSoftmaxBody {
  static constexpr int kThreads = kBlockThreads;
  AttentionSoftmaxArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const ScoresOfQuery scores(a.scores, index);
    T* probabilities = static_cast<T*>(a.probabilities) + scores.offset();
    const SoftmaxSum all = group.reduce(
        scores.vectors(), SoftmaxSum{},
        [&](SoftmaxSum& so_far, int64_t i) {
          float values[kScoresVector];
          scores.load(i, values);
          so_far.add(SoftmaxSum::of(values));
        },
        [](SoftmaxSum& one, const SoftmaxSum& other) { one.add(other); });
    const float log_sum_exp = all.log_sum_exp();
    group.once([&] { a.log_sum_exp[scores.head * a.head_stride + scores.row] = log_sum_exp; });
    group.for_each(scores.vectors(), [&](int64_t i) {
      float values[kScoresVector];
      scores.load(i, values);
      for (float& value : values) value = exp_fast(value - log_sum_exp);
      store_vector(probabilities + i * kScoresVector, values);
    });
  }
};

// The gradient of a product of query and key is p·(dp - sum of p·dp)·slope·scale, where the sum is
// that of dout·out.
template <class T>
struct AttentionSoftmaxGradBody {
  static constexpr int kThreads = kBlockThreads;
  AttentionSoftmaxGradArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const ScoresOfQuery scores(a.scores, index);
    const int64_t out_at = scores.head * a.out_head_stride + scores.row * a.out_query_stride;
    const T* out = static_cast<const T*>(a.out) + out_at;
    const T* dout = static_cast<const T*>(a.dout) + out_at;
    const float mean =
        sum(group, a.head_dim, [&](int64_t i) { return load(out[i]) * load(dout[i]); });
    const float log_sum_exp = a.log_sum_exp[scores.head * a.head_stride + scores.row];
    const float* dprobabilities = a.dprobabilities + scores.offset();
    T* probabilities = static_cast<T*>(a.probabilities) + scores.offset();
    T* dproducts = static_cast<T*>(a.dproducts) + scores.offset();
    group.for_each(scores.vectors(), [&](int64_t i) {
      float values[kScoresVector], gradients[kScoresVector];
      scores.load(i, values);
      load_vector(dprobabilities + i * kScoresVector, gradients);
      for (int k = 0; k < kScoresVector; ++k) {
        const float slope = soft_cap_slope(values[k], a.scores.soft_cap);
        const float probability = exp_fast(values[k] - log_sum_exp);
        // There are no products after the last key, and hidden scores have no slope.
        gradients[k] = values[k] == -INFINITY
                           ? 0.f
                           : probability * (gradients[k] - mean) * slope * a.scores.scale;
        values[k] = probability;
      }
      store_vector(probabilities + i * kScoresVector, values);
      store_vector(dproducts + i * kScoresVector, gradients);
    });
  }
};

// A block has a range of vectors. The numbers after the last whole vector are the last block's.
template <int kVector>
struct RoundBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kVectors = 1024;
  RoundArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t all = a.count / kVector, first = index * kVectors, left = all - first;
    group.for_each(left < kVectors ? left : kVectors, [&](int64_t i) {
      float values[kVector];
      load_vector(a.from + (first + i) * kVector, values);
      store_vector(a.to + (first + i) * kVector, values);
    });
    if (left <= kVectors)
      group.for_each(a.count - all * kVector,
                     [&](int64_t i) { store(a.to[all * kVector + i], a.from[all * kVector + i]); });
  }
};

template <class Launcher>
void launch(const AttentionSoftmaxArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    launcher(AttentionSoftmaxBody<T>{a}, a.scores.block.heads * a.scores.block.queries);
  });
}

template <class Launcher>
void launch(const AttentionSoftmaxGradArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    launcher(AttentionSoftmaxGradBody<T>{a}, a.scores.block.heads * a.scores.block.queries);
  });
}

template <class Launcher>
void launch(const ZeroArguments& a, const Launcher& launcher) {
  launcher.zero(a.numbers, a.count * static_cast<int64_t>(sizeof(float)));
}

template <class Launcher>
void launch(const RoundArguments& a, const Launcher& launcher) {
  with_vectors<bfloat16>(all_aligned({a.from, a.to}),
                         [&]<int kVector>(std::integral_constant<int, kVector>) {
                           using Body = RoundBody<kVector>;
                           const int64_t vectors = a.count / kVector;
                           launcher(Body{a}, vectors == 0 ? 1 : ceil_div(vectors, Body::kVectors));
                         });
}

}  // namespace longshore::models
