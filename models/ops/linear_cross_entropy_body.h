// The bodies of linear_cross_entropy's kernels, and how they are launched.
#pragma once

#include <cmath>

#include "models/ops/float_types.h"
#include "models/ops/linear_cross_entropy.h"
#include "models/ops/linear_cross_entropy_kernels.h"
#include "models/ops/thread_group.h"
#include "models/ops/vectors.h"

namespace longshore::models {

// The largest of some logits, and the sum of exp(logit - largest) (Milakov & Gimelshein 2018, arXiv
// 1805.02867). Without any logit the sum is 0.
struct SoftmaxSum {
  float largest, sum;

  LONGSHORE_DEVICE void add(const SoftmaxSum& other) {
    if (other.sum == 0) return;
    if (sum == 0) {
      *this = other;
    } else if (other.largest > largest) {
      sum = sum * exp_fast(largest - other.largest) + other.sum;
      largest = other.largest;
    } else {
      sum += other.sum * exp_fast(other.largest - largest);
    }
  }
};

// A block has a row: one pass over its logits for the loss, a second one for the gradients. A block
// is as large as can be, so that few rows are under way: where those fit the cache (some 50,000
// logits on an H100), the second pass finds there what the first one read.
template <class T, int kVector>
struct CrossEntropyRowsBody {
  static constexpr int kThreads = 1024;
  CrossEntropyRowsArguments a;

  template <class Block>
  LONGSHORE_BODY void operator()(Block& block, int64_t row) const {
    const int64_t v = a.vocabulary, vectors = v / kVector;
    const int32_t target = a.targets[row];
    float* logits = a.logits + row * v;
    T* dlogits = a.dlogits ? static_cast<T*>(a.dlogits) + row * v : nullptr;
    if (target == kIgnoredTarget) {
      block.once([&] { a.losses[row] = 0; });
      if (dlogits)
        block.for_each(vectors, [&](int64_t i) {
          const float zeros[kVector] = {};
          store_vector(dlogits + i * kVector, zeros);
        });
      return;
    }

    // Read before the reduction: behind it, dlogits may already take the logits' place.
    const float at_target = capped(logits[target]);
    const SoftmaxSum all = block.reduce(
        vectors, SoftmaxSum{-INFINITY, 0},
        [&](SoftmaxSum& so_far, int64_t i) {
          float values[kVector];
          load_vector(logits + i * kVector, values);
          so_far.add(of_vector(values));
        },
        [](SoftmaxSum& one, const SoftmaxSum& other) { one.add(other); });
    block.once([&] { a.losses[row] = all.largest + std::log(all.sum) - at_target; });
    if (!dlogits) return;

    const float scale = *a.dloss, factor = scale / all.sum;
    block.for_each(vectors, [&](int64_t i) {
      float values[kVector];
      load_vector(logits + i * kVector, values);
      for (int k = 0; k < kVector; ++k) {
        const float logit = capped(values[k]);
        float gradient = exp_fast(logit - all.largest) * factor;
        if (i * kVector + k == target) gradient -= scale;
        values[k] = gradient * cap_slope(logit);
      }
      store_vector(dlogits + i * kVector, values);
    });
  }

  // Caps the values. Where all are -infinity, or NaN, nothing is subtracted: a NaN stays one.
  LONGSHORE_BODY SoftmaxSum of_vector(float (&values)[kVector]) const {
    SoftmaxSum result{-INFINITY, 0};
    for (float& value : values) {
      value = capped(value);
      result.largest = value > result.largest ? value : result.largest;
    }
    const float shift = result.largest == -INFINITY ? 0 : result.largest;
    for (float value : values) result.sum += exp_fast(value - shift);
    return result;
  }

  LONGSHORE_BODY float capped(float logit) const {
    return a.cap > 0 ? a.cap * tanh_fast(logit / a.cap) : logit;
  }
  LONGSHORE_BODY float cap_slope(float logit) const {
    return a.cap > 0 ? 1.f - (logit / a.cap) * (logit / a.cap) : 1.f;
  }
};

struct TotalLossBody {
  static constexpr int kThreads = 1024;
  TotalLossArguments a;

  template <class Block>
  LONGSHORE_BODY void operator()(Block& block, int64_t) const {
    const double total =
        sum(block, a.tokens, [&](int64_t i) { return static_cast<double>(a.losses[i]); });
    block.once([&] { *a.total = static_cast<float>(total); });
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
