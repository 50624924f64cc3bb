// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2).
#pragma once

#include <cmath>

#include "longshore/models/ops/kernels/numbers.h"
#include "longshore/models/ops/update/update_kernels.h"

namespace longshore::models {

struct AdamW {
  double b1, b2, epsilon, weight_decay;
};

// States first_moment and second_moment; scalars correction_1 and correction_2, 1 - b^step.
extern const Op adamw_op;
Optimizer adamw(const AdamW& numbers);

struct AdamWElement {
  static constexpr const char* kName = "adamw";
  static constexpr int kStates = 2;

  float b1, b2, epsilon, clip;
  float decay;  // what is left of a weight
  float step;   // the learning rate over the first moment's correction
  float root;   // 1 over the root of the second moment's

  LONGSHORE_INLINE explicit AdamWElement(const UpdateScalars& s)
      : b1(s.numbers[0]),
        b2(s.numbers[1]),
        epsilon(s.numbers[2]),
        clip(s.clip),
        decay(std::fma(-s.learning_rate, s.weight_decay, 1.f)),
        step(s.learning_rate / s.scalars[0]),
        root(1.f / std::sqrt(s.scalars[1])) {}

  LONGSHORE_INLINE void operator()(float gradient, float& weight, float (&states)[2]) const {
    float &m = states[0], &v = states[1];
    const float g = gradient * clip;
    m = std::fma(b1, m, (1.f - b1) * g);
    v = std::fma(b2, v, (1.f - b2) * g * g);
    const float change = step * m / std::fma(std::sqrt(v), root, epsilon);
    weight = std::fma(weight, decay, -change);
  }
};

}  // namespace longshore::models
