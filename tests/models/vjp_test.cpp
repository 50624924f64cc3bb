// Gradients in double precision over the reference kernels.
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/autograd.h"
#include "tests/models/harness.h"
#include "tests/models/op_cases.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

constexpr uint64_t kInputs = 100, kCotangents = 200, kDirections = 300, kSums = 400;

double weighted(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) * b.to(at::kDouble)).sum().item<double>();
}

// A random linear functional of a program's outputs.
double functional(const Program& program, const Tensors& inputs, const Tensors& cotangents) {
  Tensors values = run_program(program, inputs, Target::reference);
  double sum = 0;
  for (const auto& [name, cotangent] : cotangents) sum += weighted(values.at(name), cotangent);
  return sum;
}

// Its derivative along `direction` of one input, by central differences of fourth order.
double slope(const Program& program, Tensors inputs, const Tensors& cotangents,
             const std::string& name, const at::Tensor& direction) {
  constexpr double kStep = 1e-3;
  at::Tensor at_zero = inputs.at(name);
  auto value = [&](double steps) {
    inputs[name] = at_zero + direction * (steps * kStep);
    return functional(program, inputs, cotangents);
  };
  return (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * kStep);
}

// Unit vectors of all elements, or of some and random ones, of length one, where there are many.
std::vector<at::Tensor> directions(const at::Tensor& input) {
  constexpr int64_t kAll = 60, kSome = 6, kRandom = 3;
  std::vector<at::Tensor> result;
  int64_t count = input.numel(), stride = count <= kAll ? 1 : count / kSome;
  for (int64_t i = 0; i < count; i += stride) {
    result.push_back(at::zeros_like(input));
    result.back().view({-1})[i] = 1;
  }
  for (int64_t i = 0; stride > 1 && i < kRandom; ++i) {
    at::Tensor random = random_normal(type_of(input), kDirections + i);
    result.push_back(random / std::sqrt(weighted(random, random)));
  }
  return result;
}

struct Differentiable {
  OpCase op_case;
  Program program;
  Tensors inputs, cotangents;
};

std::vector<Differentiable> differentiable_cases() {
  std::vector<Differentiable> cases;
  for (OpCase& op_case : small_cases()) {
    if (!op_case.plain) continue;
    Program program = op_case.trace(Dtype::float64);
    Tensors inputs = random_inputs(program, op_case, kInputs);
    Tensors cotangents = random_cotangents(program, kCotangents);
    cases.push_back({std::move(op_case), std::move(program), inputs, cotangents});
  }
  return cases;
}

TEST(Vjp, AgreesWithFiniteDifferences) {
  double worst = 0;
  for (const auto& [op_case, program, inputs, cotangents] : differentiable_cases()) {
    SCOPED_TRACE(op_case.name);
    BackwardProgram backward = differentiate(program);
    verify(backward.program);
    Tensors gradients =
        run_step(program, backward, inputs, cotangents, {}, Target::reference).gradients;
    for (ValueId id : program.inputs) {
      const Value& value = program[id];
      const bool is_fixed =
          value.source == Source::batch || (value.weight && value.weight->never_trains);
      if (value.type.dtype == Dtype::int32 || is_fixed) continue;
      ASSERT_TRUE(gradients.contains(value.name)) << value.name << " has no gradient";
      const at::Tensor& gradient = gradients.at(value.name);
      double scale = std::sqrt(weighted(gradient, gradient));
      if (scale < kNextToNothing) scale = 1;
      for (const at::Tensor& direction : directions(inputs.at(value.name))) {
        double expected = slope(program, inputs, cotangents, value.name, direction);
        double error = std::abs(weighted(gradient, direction) - expected) / scale;
        EXPECT_LT(error, 1e-9) << value.name << ": " << weighted(gradient, direction)
                               << ", expected " << expected;
        worst = std::max(worst, error);
      }
    }
  }
  std::cout << "largest relative error " << worst << "\n";
}

TEST(Vjp, AgreesWithAutograd) {
  for (const auto& [op_case, program, inputs, cotangents] : differentiable_cases()) {
    SCOPED_TRACE(op_case.name);
    Step step =
        run_step(program, differentiate(program), inputs, cotangents, {}, Target::reference);
    Tensors leaves = as_leaves(inputs);
    std::vector<at::Tensor> outputs = op_case.plain(leaves), output_cotangents;
    ASSERT_EQ(outputs.size(), program.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = program[program.outputs[i].value].name;
      EXPECT_LT(difference(step.values.at(name), outputs[i].detach()), 1e-12) << name;
      output_cotangents.push_back(cotangents.at(name));
    }
    Tensors expected = autograd(outputs, output_cotangents, trained(program, leaves));
    EXPECT_EQ(expected.size(), step.gradients.size());
    for (const auto& [name, gradient] : expected)
      EXPECT_LT(difference(step.gradients.at(name), gradient), 1e-12) << name;
  }
}

TEST(Vjp, AddsToWhatAWeightsGradientHolds) {
  for (const auto& [op_case, program, inputs, cotangents] : differentiable_cases()) {
    std::vector<ValueId> weights = program.inputs_from(Source::weight);
    if (weights.empty()) continue;
    SCOPED_TRACE(op_case.name);
    Tensors sums;
    for (ValueId id : weights)
      sums[program[id].name] = random_normal(program[id].type, kSums + id.index);
    Tensors alone =
        run_step(program, differentiate(program), inputs, cotangents, {}, Target::reference)
            .gradients;
    Tensors added = run_step(program, differentiate(program, weights), inputs, cotangents, sums,
                             Target::reference)
                        .gradients;
    for (const auto& [name, gradient] : alone) {
      if (sums.contains(name))
        EXPECT_LT(difference(added.at(name), sums.at(name) + gradient), 1e-14) << name;
      else
        EXPECT_TRUE(equal_bits(added.at(name), gradient)) << name;
    }
  }
}

// Freezing a weight or an input removes its gradient and leaves the others as they were.
TEST(Vjp, WhatIsFrozenChangesNoOtherGradient) {
  for (const auto& [op_case, program, inputs, cotangents] : differentiable_cases()) {
    SCOPED_TRACE(op_case.name);
    Tensors all =
        run_step(program, differentiate(program), inputs, cotangents, {}, Target::reference)
            .gradients;
    for (const auto& [frozen, gradient] : all) {
      Program partly = program;
      ValueId frozen_id = partly.find(frozen);
      std::vector<ValueId> trained = partly.inputs_from(Source::input);
      std::erase(trained, frozen_id);
      if (partly[frozen_id].weight) {
        partly[frozen_id].weight->trainable = Trainable::no;
        partly[frozen_id].needs_gradient = false;
      }
      set_input_gradients(partly, trained);
      Tensors rest =
          run_step(partly, differentiate(partly), inputs, cotangents, {}, Target::reference)
              .gradients;
      EXPECT_FALSE(rest.contains(frozen));
      EXPECT_EQ(rest.size(), all.size() - 1);
      for (const auto& [name, value] : rest)
        EXPECT_TRUE(equal_bits(value, all.at(name))) << name << " without " << frozen;
    }
  }
}

}  // namespace
}  // namespace longshore::models
