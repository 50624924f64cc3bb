// What the kernels of AdamW share: its attributes, and which operand is where.
#pragma once

#include "base/bfloat16.h"
#include "models/ir/op.h"
#include "models/ops/adamw/adamw.h"

namespace longshore::models {

struct AdamWAttrs {
  AdamW hyperparameters;
  Dtype compute_dtype;
  Rounding rounding;
};

inline const AdamWAttrs& adamw_attrs(const std::any& attrs) {
  return std::any_cast<const AdamWAttrs&>(attrs);
}

// Positions of operands; those of inputs count the gradient, which has no output.
class AdamWOperands {
 public:
  explicit AdamWOperands(size_t inputs) : inputs_(inputs) {}

  static constexpr int kGradient = 0, kWeight = 1, kM = 2;
  bool has_scales() const { return inputs_ == kMost; }
  bool rounds() const { return inputs_ > kLeast; }
  int m_scale() const { return has_scales() ? 3 : -1; }
  int v() const { return has_scales() ? 4 : 3; }
  int v_scale() const { return has_scales() ? 5 : -1; }
  int learning_rate() const { return has_scales() ? 6 : 4; }  // then corrections, clip, step
  int step() const { return learning_rate() + 4; }
  static int output(int input) { return input - 1; }
  int states() const { return has_scales() ? 5 : 3; }  // outputs that take an input's place

  // Inputs: all float32, something rounded, 8-bit moments.
  static constexpr size_t kLeast = 8, kRounded = 9, kMost = 11;

 private:
  size_t inputs_;
};

void adamw_cpu(const KernelCall& call);

// What our own kernel on a GPU reads and writes; what is `before` may lie where the result goes.
struct AdamWArguments {
  int64_t count;
  Dtype weight_dtype;  // float32 or bfloat16
  MomentFormat moments;
  const float* gradient;
  const void *weight_before, *m_before, *v_before;
  const float *m_scale_before, *v_scale_before;  // null unless moments are block8; so below
  void *weight, *m, *v;
  float *m_scale, *v_scale;
  bfloat16* compute;                                                // null where there is no copy
  const float *learning_rate, *correction_1, *correction_2, *clip;  // scalars on the device
  const int32_t* step;  // a scalar on the device; null where nothing is rounded
  float b1, b2, epsilon, decay;
  Rounding rounding;
};

AdamWArguments adamw_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_adamw(const AdamWArguments& arguments, void* stream);

// A composition of ATen's ops, a part of the range at a time.
void adamw_composed(const KernelCall& call);
int64_t adamw_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                 std::span<const Type> out);

}  // namespace longshore::models
