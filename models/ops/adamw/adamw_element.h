// AdamW's update of one element (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2), to the
// same bits on every processor: whatever is added to is a fused multiply-add by name, which leaves
// compilers no choice of what to fuse, and quotients and roots are rounded right everywhere. So it
// makes no difference where states are updated.
#pragma once

#include <cmath>

#include "models/ops/kernels/numbers.h"

namespace longshore::models {

struct AdamWFactors {
  float b1, b2, epsilon, clip;
  float decay;  // what is left of a weight
  float step;   // the learning rate over the first moment's correction
  float root;   // 1 over the root of the second moment's

  LONGSHORE_INLINE AdamWFactors(float b1, float b2, float epsilon, float weight_decay,
                                float learning_rate, float correction_1, float correction_2,
                                float clip)
      : b1(b1),
        b2(b2),
        epsilon(epsilon),
        clip(clip),
        decay(std::fma(-learning_rate, weight_decay, 1.f)),
        step(learning_rate / correction_1),
        root(1.f / std::sqrt(correction_2)) {}
};

LONGSHORE_INLINE void adamw_element(const AdamWFactors& f, float gradient, float& weight, float& m,
                                    float& v) {
  const float g = gradient * f.clip;
  m = std::fma(f.b1, m, (1.f - f.b1) * g);
  v = std::fma(f.b2, v, (1.f - f.b2) * g * g);
  const float change = f.step * m / std::fma(std::sqrt(v), f.root, f.epsilon);
  weight = std::fma(weight, f.decay, -change);
}

}  // namespace longshore::models
