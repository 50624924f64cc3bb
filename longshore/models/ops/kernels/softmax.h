// softmax() of one row, in float64, for kernels of the CPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {

// Writes the probabilities of `count` logits; returns the logarithm of the sum of their
// exponentials.
template <class T>
double softmax(const T* logits, int64_t count, double* probabilities) {
  double largest = load(logits[0]), sum = 0;
  for (int64_t i = 1; i < count; ++i) largest = std::max<double>(largest, load(logits[i]));
  for (int64_t i = 0; i < count; ++i) sum += probabilities[i] = std::exp(load(logits[i]) - largest);
  for (int64_t i = 0; i < count; ++i) probabilities[i] /= sum;
  return largest + std::log(sum);
}

}  // namespace longshore::models
