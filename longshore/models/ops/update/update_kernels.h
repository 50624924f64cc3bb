// The kernels of updates share these parts: attributes, which operand is where, and an op's record.
#pragma once

#include "longshore/base/bfloat16.h"
#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/update/update.h"

namespace longshore::models {

struct UpdateAttrs {
  Optimizer optimizer;
  Dtype compute_dtype;
  Rounding rounding;
};

inline const UpdateAttrs& update_attrs(const std::any& attrs) {
  return std::any_cast<const UpdateAttrs&>(attrs);
}

// Positions of operands; those of inputs count the gradient, which has no output.
class UpdatePlaces {
 public:
  UpdatePlaces(const UpdateRule& rule, size_t inputs)
      : states_(static_cast<int>(rule.states.size())),
        scalars_(static_cast<int>(rule.scalars.size())),
        inputs_(static_cast<int>(inputs)) {}

  static constexpr int kGradient = 0, kWeight = 1;
  bool has_scales() const { return inputs_ == most(); }
  bool rounds() const { return inputs_ > least(); }
  int states() const { return states_; }
  int state(int i) const { return kWeight + 1 + i * (has_scales() ? 2 : 1); }
  int scales(int i) const { return has_scales() ? state(i) + 1 : -1; }
  int learning_rate() const { return state(states_); }
  int scalar(int i) const { return learning_rate() + 1 + i; }  // the rule's
  int clip() const { return scalar(scalars_); }
  int step() const { return clip() + 1; }
  static int output(int input) { return input - 1; }
  int kept() const { return output(learning_rate()); }  // outputs that take an input's place

  // Inputs: all float32, something rounded, 8-bit states.
  int least() const { return 4 + states_ + scalars_; }
  int rounded() const { return least() + 1; }
  int most() const { return rounded() + states_; }

 private:
  int states_, scalars_, inputs_;
};

inline UpdatePlaces update_places(const KernelCall& call) {
  return {*update_attrs(call.attrs).optimizer.rule, call.in.size()};
}

// The values of a call that are the same for all elements.
struct UpdateScalars {
  float numbers[3];
  float weight_decay, learning_rate, clip;
  float scalars[2];  // the rule's
};

// --- the CPU's kernel

// A range of float32: what is read, and where results go, which may be the same places.
struct UpdateRange {
  const float* gradient;
  const float* weight_before;
  const float* states_before[2];
  float* weight;
  float* states[2];
  bfloat16* compute;  // null where there is no copy
  int64_t count;
};

// Calls `range`, which is a rule's loop (longshore/models/ops/update/rule_loop.h), on parts of the
// call's operands, widened where they are not float32.
using RangeUpdate = void (*)(const UpdateRange& range, const UpdateScalars& scalars);
void run_update_cpu(const KernelCall& call, RangeUpdate range);

template <RangeUpdate range>
void update_cpu(const KernelCall& call) {
  run_update_cpu(call, range);
}

// --- the GPU's

// What a rule's kernel on a GPU reads and writes; what is `before` may lie where the result goes.
struct UpdateArguments {
  struct State {
    const void* before;
    const float* scales_before;  // null unless states are block8; so below
    void* after;
    float* scales;
  };

  int64_t count;
  Dtype weight_dtype;  // float32 or bfloat16
  StateFormat format;
  const float* gradient;
  const void* weight_before;
  void* weight;
  State states[2];
  bfloat16* compute;                  // null where there is no copy
  const float *learning_rate, *clip;  // scalars on the device
  const float* scalars[2];            // likewise, the rule's
  const int32_t* step;                // likewise; null where nothing is rounded
  float numbers[3];
  float weight_decay;
  Rounding rounding;
};

// Of the rule whose element is Element.
template <class Element>
struct ArgumentsOf : UpdateArguments {};

UpdateArguments update_arguments(const KernelCall& call);

template <class Element>
ArgumentsOf<Element> arguments_of_rule(const KernelCall& call) {
  return {update_arguments(call)};
}

// Into a cudaStream_t; throws Error when the launch fails. Instantiated in the rule's .cu file.
template <class Element>
void launch_update(const ArgumentsOf<Element>& arguments, void* stream);

// --- the op

Types infer_update(const std::any& attrs, std::span<const Type> in);
Cost update_cost(const std::any& attrs, std::span<const Type> in, std::span<const Type> out);
std::string print_update(const std::any& attrs);
std::vector<Reuse> update_reuse(const std::any& attrs, int inputs);
int64_t update_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                  std::span<const Type> out);

// The record of a rule's op. `composed` is update_composed<...> of
// longshore/models/ops/update/update_aten.h.
template <class Element, RangeUpdate range>
Op update_op(const char* name, void (*composed)(const KernelCall&)) {
  return {.name = name,
          .infer = infer_update,
          .cost = update_cost,
          .print = print_update,
          .reuse = update_reuse,
          .cpu = {update_cpu<range>},
          .cuda = {custom_kernel<launch_update<Element>, arguments_of_rule<Element>>()},
          .cuda_composed = {composed, update_composed_workspace},
          .reference = {composed}};
}

}  // namespace longshore::models
