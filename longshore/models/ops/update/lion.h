// Lion (Chen et al. 2023, arXiv 2302.06675, algorithm 2): weights move by the learning rate, in the
// direction that the sign of an averaged gradient says.
#pragma once

#include <cmath>

#include "longshore/models/ops/kernels/numbers.h"
#include "longshore/models/ops/update/update_kernels.h"

namespace longshore::models {

struct Lion {
  double b1, b2, weight_decay;
};

// State momentum; no scalars. The sign of 0 is 0, that of a NaN a NaN.
extern const Op lion_op;
Optimizer lion(const Lion& numbers);

struct LionElement {
  static constexpr const char* kName = "lion";
  static constexpr int kStates = 1;

  float b1, b2, clip;
  float decay;  // what is left of a weight
  float step;   // the learning rate

  LONGSHORE_INLINE explicit LionElement(const UpdateScalars& s)
      : b1(s.numbers[0]),
        b2(s.numbers[1]),
        clip(s.clip),
        decay(std::fma(-s.learning_rate, s.weight_decay, 1.f)),
        step(s.learning_rate) {}

  LONGSHORE_INLINE void operator()(float gradient, float& weight, float (&states)[1]) const {
    float& m = states[0];
    const float g = gradient * clip;
    const float direction = std::fma(b1, m, (1.f - b1) * g);
    const float sign = direction > 0.f ? 1.f : direction < 0.f ? -1.f : direction;
    weight = std::fma(weight, decay, -(step * sign));
    m = std::fma(b2, m, (1.f - b2) * g);
  }
};

}  // namespace longshore::models
