// The gates of gated layers, and the activations that stand alone, for vectorised loops and kernels
// on a GPU, in float32.
#pragma once

#include <numbers>

#include "longshore/models/ops/kernels/numbers.h"

namespace longshore::models {

struct ValueAndSlope {
  float value, slope;
};

// x / (1 + exp(-x)) (Elfwing et al. 2017, arXiv 1702.03118).
struct Silu {
  LONGSHORE_INLINE static float value(float x) { return divide_fast(x, 1.f + exp_fast(-x)); }

  LONGSHORE_INLINE static ValueAndSlope value_and_slope(float x) {
    float sigmoid = divide_fast(1.f, 1.f + exp_fast(-x));
    float silu = x * sigmoid;
    return {silu, sigmoid + silu * (1.f - sigmoid)};
  }
};

// x/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x³) (Hendrycks & Gimpel 2016,
// arXiv 1606.08415). With e = exp(-2u), (1 + tanh(u)) / 2 is 1 / (1 + e), which does not cancel
// where it is small.
struct GeluTanh {
  static constexpr float kTwiceRoot =
      static_cast<float>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);  // 2 sqrt(2/pi)
  static constexpr float kCubic = 0.044715f;

  LONGSHORE_INLINE static float exponential(float x) {
    return exp_fast(-kTwiceRoot * (x + kCubic * x * x * x));
  }

  LONGSHORE_INLINE static float value(float x) { return divide_fast(x, 1.f + exponential(x)); }

  LONGSHORE_INLINE static ValueAndSlope value_and_slope(float x) {
    float e = exponential(x), gate = divide_fast(1.f, 1.f + e);
    float rest = e > 1e30f ? 1.f : e * gate;  // 1 - gate, where gate is near 1 too
    float slope = kTwiceRoot * (1.f + 3.f * kCubic * x * x);
    return {x * gate, gate + x * gate * rest * slope};
  }
};

// (u + 1) g sigmoid(alpha g), where g is `gate` but at most `limit`, and u is `up` within ±limit
// (OpenAI 2025, arXiv 2508.10925). Slopes are 0 beyond the limit, not at it; a NaN
// gives a NaN and has no slope.
struct ClampedGate {
  float alpha, limit;

  struct Slopes {
    float gate, up;
  };

  LONGSHORE_INLINE float value(float gate, float up) const {
    const float g = clamped_gate(gate);
    return clamped_up_and_one(up) * divide_fast(g, 1.f + exp_fast(-alpha * g));
  }

  LONGSHORE_INLINE Slopes slopes(float gate, float up) const {
    const float g = clamped_gate(gate), sigmoid = divide_fast(1.f, 1.f + exp_fast(-alpha * g));
    const float gated = g * sigmoid, slope = sigmoid + alpha * gated * (1.f - sigmoid);
    return {gate <= limit ? clamped_up_and_one(up) * slope : 0.f,
            std::abs(up) <= limit ? gated : 0.f};
  }

 private:
  LONGSHORE_INLINE float clamped_gate(float gate) const { return gate > limit ? limit : gate; }
  LONGSHORE_INLINE float clamped_up_and_one(float up) const {
    const float below = up > limit ? limit : up;
    return (below < -limit ? -limit : below) + 1.f;
  }
};

}  // namespace longshore::models
