// A SoftmaxSum computes the denominator of a softmax in one pass over its numbers.
#pragma once

#include <cmath>

#include "longshore/base/device.h"
#include "longshore/models/ops/kernels/numbers.h"

namespace longshore::models {

// The largest of some numbers, and the sum of exp(number - largest) (Milakov & Gimelshein 2018,
// arXiv 1805.02867). Without any number the sum is 0.
struct SoftmaxSum {
  float largest = -INFINITY, sum = 0;

  // Where all are -infinity, or NaN, nothing is subtracted: a NaN stays one.
  template <int kCount>
  LONGSHORE_DEVICE static SoftmaxSum of(const float (&numbers)[kCount]) {
    SoftmaxSum result;
    for (float number : numbers) result.largest = number > result.largest ? number : result.largest;
    const float shift = result.largest == -INFINITY ? 0 : result.largest;
    for (float number : numbers) result.sum += exp_fast(number - shift);
    return result;
  }

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

  LONGSHORE_DEVICE float log_sum_exp() const { return largest + std::log(sum); }
};

}  // namespace longshore::models
