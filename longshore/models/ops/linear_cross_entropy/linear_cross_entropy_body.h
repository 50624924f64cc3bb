// The bodies of linear_cross_entropy's kernels, and how they are launched.
#pragma once

#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/softmax_sum.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_kernels.h"

namespace longshore::models {

// A block has a row: one pass over its logits for the loss, a second one for the gradients. A block
// is as large as can be, so that few rows are under way: where those fit the cache (some 50,000
// logits on an H100), the second pass finds there what the first one read.
template <class T, int kVector>
struct CrossEntropyRowsBody {
  static constexpr int kThreads = 1024;
  CrossEntropyRowsArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t row) const {
    const int64_t v = a.vocabulary, vectors = v / kVector, k = a.targets_of_row;
    const int32_t* targets = a.targets + row * k;
    float* losses = a.losses + row * k;
    float* logits = a.logits + row * v;
    T* dlogits = a.dlogits ? static_cast<T*>(a.dlogits) + row * v : nullptr;
    if (targets[0] == kIgnoredTarget) {
      group.for_each(k, [&](int64_t i) { losses[i] = 0; });
      if (dlogits)
        group.for_each(vectors, [&](int64_t i) {
          const float zeros[kVector] = {};
          store_vector(dlogits + i * kVector, zeros);
        });
      return;
    }

    // Read before the reduction: after it, dlogits may already take the logits' place.
    auto at_target = group.template own<float>();
    auto for_each_target = [&](auto f) {
      group.for_each(k, [&](int64_t i) {
        if (targets[i] != kIgnoredTarget) f(i);
      });
    };
    for_each_target([&](int64_t i) { at_target[i] = soft_capped(logits[targets[i]], a.cap); });
    const SoftmaxSum all = group.reduce(
        vectors, SoftmaxSum{},
        [&](SoftmaxSum& so_far, int64_t i) {
          float values[kVector];
          load_vector(logits + i * kVector, values);
          for (float& value : values) value = soft_capped(value, a.cap);
          so_far.add(SoftmaxSum::of(values));
        },
        [](SoftmaxSum& one, const SoftmaxSum& other) { one.add(other); });
    group.for_each(k, [&](int64_t i) {
      losses[i] = targets[i] == kIgnoredTarget ? 0 : all.log_sum_exp() - at_target[i];
    });
    if (!dlogits) return;

    auto dloss_of = [&](int64_t i) {
      return targets[i] == kIgnoredTarget ? 0.f : a.dloss_of(row, i);
    };
    const float scale = k == 1 ? dloss_of(0) : sum(group, k, dloss_of), factor = scale / all.sum;
    group.for_each(vectors, [&](int64_t i) {
      float values[kVector];
      load_vector(logits + i * kVector, values);
      for (float& value : values) {
        const float logit = soft_capped(value, a.cap);
        value = exp_fast(logit - all.largest) * factor * soft_cap_slope(logit, a.cap);
      }
      store_vector(dlogits + i * kVector, values);
    });
    group.sync();
    for_each_target([&](int64_t i) {
      const float gradient = exp_fast(at_target[i] - all.largest) * factor - dloss_of(i);
      store(dlogits[targets[i]], gradient * soft_cap_slope(at_target[i], a.cap));
    });
  }
};

struct TotalLossBody {
  static constexpr int kThreads = 1024;
  TotalLossArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t) const {
    const double total =
        sum(group, a.tokens, [&](int64_t i) { return static_cast<double>(a.losses[i]); });
    group.once([&] { *a.total = static_cast<float>(total); });
  }
};

template <class Launcher>
void launch(const CrossEntropyRowsArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.vocabulary % kVectorOf<T> == 0 && all_aligned({a.logits, a.dlogits});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      launcher(CrossEntropyRowsBody<T, kVector>{a}, a.rows);
    });
  });
}

template <class Launcher>
void launch(const TotalLossArguments& a, const Launcher& launcher) {
  launcher(TotalLossBody{a}, 1);
}

}  // namespace longshore::models
