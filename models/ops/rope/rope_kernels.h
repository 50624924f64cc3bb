// Our custom kernels of rope and its table on a GPU, and the frequencies, which the CPU's have too.
#pragma once

#include <cmath>
#include <numbers>

#include "base/device.h"
#include "models/ir/op.h"
#include "models/ops/rope/rope.h"

namespace longshore::models {

// base^(-i/half), scaled, for i in [0, half): what models/ops/rope/rope.h says of each scaling.
struct RopeFrequencies {
  enum class Scaling : uint8_t { none, linear, llama3 };

  double base;
  int64_t half;
  Scaling scaling = Scaling::none;
  double factor = 1, low_freq_factor = 0, high_freq_factor = 0, original_length = 0;

  LONGSHORE_DEVICE double operator()(int64_t i) const {
    const double frequency = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
    if (scaling == Scaling::none) return frequency;
    if (scaling == Scaling::linear) return frequency / factor;
    const double turns = original_length * frequency / (2 * std::numbers::pi);
    double kept = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
    kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
    return (1 - kept) * frequency / factor + kept * frequency;
  }
};

struct RopeTableArguments {
  RopeFrequencies frequencies;
  int64_t tokens;
  const int32_t* positions;
  float *cos, *sin;  // [tokens, half]
};

struct RopeArguments {
  Dtype dtype;  // of x and out, which may be one: float32 or bfloat16
  int64_t tokens, heads, half;
  const void* x;  // [tokens, heads, 2, half]
  const float *cos, *sin;
  float sign;  // of the angles
  void* out;
};

RopeTableArguments rope_table_arguments(const KernelCall& call);
RopeArguments rope_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_rope_table(const RopeTableArguments& arguments, void* stream);
void launch_rope(const RopeArguments& arguments, void* stream);

}  // namespace longshore::models
