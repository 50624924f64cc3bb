// Updates weights by an optimizer's rule. A rule says how one element changes; all that rules have
// in common is here: what states and weights are stored in, how they are rounded, clipping, and
// kernels for every target.
//
// Weights may be bfloat16 without a wider copy, and states bfloat16 or 8 bits. Everything is
// computed in float32 and then rounded stochastically, up or down at random so that the expectation
// is the value: nearest rounding would lose every step that is smaller than half a gap.
#pragma once

#include <array>
#include <vector>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/update/state_format.h"

namespace longshore::models {

Type state_type(StateFormat format, int64_t count);  // f32, bf16 or u8 [count]
Type scale_type(int64_t count);                      // f32 [ceil(count / 256)]

// Which random numbers a range rounds with: a pure function of seed, step, sequence and each
// element's index in its bucket, so that a bucket may be updated in parts. `first` is the index of
// the range's first element, a multiple of 64; buckets that share a seed need a sequence each.
struct Rounding {
  uint64_t seed = 0;
  uint32_t sequence = 0;
  int64_t first = 0;
};

// A rule's numbers (hyperparameters), in the order of their names.
using RuleNumbers = std::array<double, 3>;

struct UpdateRule;

// A rule with its numbers, and the weight decay, which the rule says how to apply.
struct Optimizer {
  const UpdateRule* rule;
  RuleNumbers numbers;
  double weight_decay;
  double learning_rate_ratio = 1;  // of the learning rate of a step
};

struct UpdateOperands {
  struct State {
    Var value;
    Var scales;  // of block8 alone
  };

  Var gradient, weight;
  std::vector<State> states;
  Var learning_rate;
  std::vector<Var> scalars;  // the rule's
  Var clip;
  Var step;  // where something is rounded stochastically
};

// What is updated at a time: any part of a bucket, flat; or a whole matrix, in its shape.
enum class Region : uint8_t { range, matrix };

// How an optimizer updates weights.
struct UpdateRule {
  // A float for each element, and where it has 8 bits its scales.
  struct State {
    const char* name;
    const char* scale_name;
  };

  const char* name;
  std::vector<const char*> numbers;  // as they are printed
  std::vector<State> states;         // zero before the first step
  // Scalars that change with the steps, besides the learning rate, and their values in step number
  // `step`, which counts from 1.
  std::vector<const char*> scalars;
  double (*scalar)(const RuleNumbers& numbers, size_t which, int64_t step) = nullptr;
  Region region = Region::range;
  // Traces the update of a region. Gives the weight, states, each followed by its scales if there
  // are any, and where `compute_dtype` is not the weight's, the weight rounded to that. Each but
  // the last lies in the memory of what it takes the place of.
  std::vector<Var> (*trace)(const Optimizer& optimizer, Dtype compute_dtype,
                            const UpdateOperands& operands, const Rounding& rounding);
};

// The trace of rules whose update is one node, of `op`: (gradient f32 [n]; weight f32 or bf16 [n];
// states [n], each followed by its scales if block8; learning_rate, the rule's scalars, clip: f32
// scalars; step: i32 scalar, there exactly when the weight or the states are not f32)
// -> weight, states [, each followed by its scales] [, compute [n] in `compute_dtype`: the weight
// rounded to nearest, where that dtype is not the weight's].
// The gradient counts times clip; where clip is 0, nothing is updated, whatever the gradient holds,
// and only `compute` is made. Every output takes the place of its input. Parts of a block8 range
// that are updated apart start at multiples of 256. For tests of the reference kernel, gradient,
// weight and states may all be f64.
std::vector<Var> trace_update(const Op& op, const Optimizer& optimizer, Dtype compute_dtype,
                              const UpdateOperands& operands, const Rounding& rounding);

template <const Op& op>
std::vector<Var> trace_update(const Optimizer& optimizer, Dtype compute_dtype,
                              const UpdateOperands& operands, const Rounding& rounding) {
  return trace_update(op, optimizer, compute_dtype, operands, rounding);
}

// By the optimizer's rule.
std::vector<Var> update(const Optimizer& optimizer, Dtype compute_dtype,
                        const UpdateOperands& operands, const Rounding& rounding = {});

}  // namespace longshore::models
