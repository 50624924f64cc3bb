// backward() differentiates a forward program into the program of its gradients. It accumulates in
// reverse by the ops' vjp rules, before any policy is known, so that last uses are true.
#pragma once

#include <span>
#include <vector>

#include "longshore/models/ir/program.h"

namespace longshore::models {

struct GradientOf {
  ValueId of;        // an input or weight of the forward program
  ValueId gradient;  // its gradient in the backward program
};

// The sum that a weight's gradient is added to, in place.
struct Accumulator {
  ValueId weight;  // of the forward program
  ValueId sum;     // an input of the backward program
};

// A forward output that the backward program makes as well.
struct RemadeOutput {
  ValueId output;  // of the forward program
  ValueId value;   // the same in the backward program
};

// Its first values are those of the forward program, under the same ids; nodes read them freely.
// Which of them must be kept, moved or made again is the partition's decision.
struct BackwardProgram {
  Program program;                    // inputs: cotangents and accumulators; outputs: gradients
  std::vector<ValueId> cotangents;    // one for each forward output; invalid where none is needed
  std::vector<GradientOf> gradients;  // weights and inputs that need one, and only these
  std::vector<Accumulator> accumulators;  // of weights in BackwardOptions::accumulate
  // A loss that is computed together with its gradient: where the two programs run back to back,
  // the forward node that makes it need not run.
  std::vector<RemadeOutput> remade_outputs;
};

struct BackwardOptions {
  // Weights whose gradient already holds something: theirs is added to, in place.
  std::vector<ValueId> accumulate;
  Dtype weight_gradient_dtype = Dtype::float32;
};

BackwardProgram backward(const Program& forward, const BackwardOptions& options = {});

// Sets needs_gradient of the inputs from other stages and layers, and of all that follows from
// them.
void set_input_gradients(Program& program, std::span<const ValueId> inputs_that_need_one);

// What a vjp rule works with.
class Backward {
 public:
  Backward(const Program& forward, const BackwardOptions& options);

  const Program& program() const { return result_.program; }

  // The gradient of a forward value; every vjp rule is called only when output 0 has one.
  ValueId gradient(ValueId value) const { return gradients_[value.index]; }
  bool wants_gradient(ValueId value) const { return program()[value].needs_gradient; }
  Dtype weight_gradient_dtype() const { return options_.weight_gradient_dtype; }

  // Emits a node named after the value whose gradient it makes.
  std::vector<ValueId> emit(const Op& op, std::any attrs, std::vector<ValueId> in, ValueId of);

  // Makes output 0 of the op the value's gradient. What there is of it so far is added to, in
  // place: it becomes the op's sum_input, which follows `in`.
  void accumulate(const Op& op, std::any attrs, std::vector<ValueId> in, ValueId value);
  // The same for ops with several outputs that are gradients: they read the sum so far (invalid if
  // none) and replace it.
  ValueId sum_so_far(ValueId value);
  void replace_sum(ValueId value, ValueId sum) { gradients_[value.index] = sum; }
  // Of ops that cannot add to what is there: an `add` is emitted where needed.
  void contribute(ValueId value, ValueId gradient);

  void remakes(ValueId forward_output, ValueId value) {
    result_.remade_outputs.push_back({forward_output, value});
  }

  BackwardProgram finish();

 private:
  const Program& forward_;
  const BackwardOptions& options_;
  BackwardProgram result_;
  std::vector<ValueId> gradients_;  // by forward value
};

}  // namespace longshore::models
