// Stochastic gradient descent with momentum, as torch.optim.SGD has it: weights decay through their
// gradients, and so through the momentum.
#pragma once

#include <cmath>

#include "longshore/models/ops/kernels/numbers.h"
#include "longshore/models/ops/update/update_kernels.h"

namespace longshore::models {

struct Sgd {
  double momentum, weight_decay;
  bool nesterov = false;  // steps along the gradient and the momentum that follows, not this one
};

// State momentum; no scalars.
extern const Op sgd_op;
Optimizer sgd(const Sgd& numbers);

struct SgdElement {
  static constexpr const char* kName = "sgd";
  static constexpr int kStates = 1;

  float momentum, weight_decay, clip;
  float step;       // the learning rate
  float of_next;    // the part of the momentum in a step: 1, or with Nesterov's `momentum`
  float of_itself;  // that of the gradient: 0, or with Nesterov's 1

  LONGSHORE_INLINE explicit SgdElement(const UpdateScalars& s)
      : momentum(s.numbers[0]),
        weight_decay(s.weight_decay),
        clip(s.clip),
        step(s.learning_rate),
        of_next(s.numbers[1] != 0 ? s.numbers[0] : 1.f),
        of_itself(s.numbers[1] != 0 ? 1.f : 0.f) {}

  LONGSHORE_INLINE void operator()(float gradient, float& weight, float (&states)[1]) const {
    float& m = states[0];
    const float g = std::fma(weight_decay, weight, gradient * clip);
    m = std::fma(momentum, m, g);
    weight = std::fma(-step, std::fma(of_next, m, of_itself * g), weight);
  }
};

}  // namespace longshore::models
