// What the op cases do not show of the element-wise ops: roundings, bounds and numbers of threads.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/add_bias/add_bias.h"
#include "longshore/models/ops/clamped_swiglu.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/scale.h"
#include "longshore/models/ops/soft_cap.h"
#include "longshore/models/ops/swiglu.h"
#include "tests/models/harness.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

using testing::HasSubstr;
using testing::Not;

Program all_ops_of(Dtype dtype, Shape shape) {
  Trace t("elementwise");
  Var x = t.input("x", {shape, dtype});
  Var biased = add_bias(x, t.weight("bias", {{shape.back()}, dtype}, {}));
  Var gate = clamped_swiglu(soft_cap(biased, 2), biased, {.alpha = 1.7, .limit = 1.5});
  t.output(geglu(gate, scale(biased, 1.7)));
  return t.finish();
}

TEST(Elementwise, IsTheSameToTheBitForAnyNumberOfThreads) {
  const Shape shape{2, 333, 67};
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Program program = all_ops_of(dtype, shape);
    BackwardProgram backward = differentiate(program, program.inputs_from(Source::weight));
    Tensors inputs{{"x", random_normal({shape, dtype}, 1)},
                   {"bias", random_normal({{shape.back()}, dtype}, 2)}};
    Tensors sums{{"bias", random_normal({{shape.back()}}, 3)}};
    Tensors cotangents = random_cotangents(program, 4);
    expect_same_bits_on_any_threads(
        [&] { return run_step(program, backward, inputs, cotangents, sums, Target::cpu); });
  }
}

// 20 000 equal rows: added one after the other in float32, they would be 1e-4 off.
TEST(AddBias, GradientDoesNotLoseSmallTermsOfLongSums) {
  const int64_t rows = 20'000;
  Trace t("add_bias");
  t.output(add_bias(t.input("x", {{rows, 3}}), t.weight("bias", {{3}}, {})));
  Program program = t.finish();
  at::Tensor x = at::full({rows, 3}, 1.f), bias = at::full({3}, 0.f);
  Step step = run_step(program, differentiate(program), {{"x", x}, {"bias", bias}},
                       {{"add_bias", at::full({rows, 3}, 0.1f)}}, {}, Target::cpu);
  double expected = rows * static_cast<double>(0.1f);
  EXPECT_NEAR(step.gradients.at("bias")[1].item<double>() / expected, 1, 1e-5);
}

// A bias costs its input's gradient nothing.
TEST(AddBias, PassesItsCotangentOn) {
  Trace t("add_bias");
  t.output(add_bias(t.input("x", {{2, 3}}), t.weight("bias", {{3}}, {})));
  BackwardProgram backward = differentiate(t.finish());
  ASSERT_EQ(backward.program.nodes.size(), 1u);
  EXPECT_EQ(backward.program.nodes[0].op, &add_bias_grad_op);
}

TEST(AddBias, RefusesWhatDoesNotFit) {
  Trace t("add_bias");
  Var x = t.input("x", {{2, 3}});
  EXPECT_THROW(add_bias(x, t.weight("short", {{2}}, {})), InternalError);
  EXPECT_THROW(add_bias(x, t.weight("matrix", {{1, 3}}, {})), InternalError);
  EXPECT_THROW(add_bias(x, t.weight("narrow", {{3}, Dtype::bfloat16}, {})), InternalError);
}

// As a product with a bfloat16 tensor that holds the factor.
TEST(Scale, RoundsItsFactorFirst) {
  const double factor = std::sqrt(2304.) + 0.11;  // not a bfloat16
  Trace t("scale");
  Type type{{5, 333}, Dtype::bfloat16};
  t.output(scale(t.input("x", type), factor));
  Program program = t.finish();
  at::Tensor x = random_normal(type, 1);
  at::Tensor expected = x * at::full({}, factor, at::kBFloat16);
  ASSERT_FALSE(equal_bits(expected, (x.to(at::kFloat) * factor).to(at::kBFloat16)));
  for (Target target : {Target::cpu, Target::reference})
    EXPECT_TRUE(equal_bits(run_program(program, {{"x", x}}, target).at("scale"), expected));
}

TEST(Scale, RefusesFactorsThatAreNotFinite) {
  Trace t("scale");
  Var x = t.input("x", {{2, 3}});
  EXPECT_THROW(scale(x, INFINITY), InternalError);
  EXPECT_THROW(scale(x, NAN), InternalError);
}

TEST(SoftCap, StaysWithinItsCapAndKeepsSmallNumbers) {
  Trace t("soft_cap");
  t.output(soft_cap(t.input("x", {{6}}), 30));
  Program program = t.finish();
  at::Tensor x = at::full({6}, 0.f);
  const float numbers[]{1e30f, -1e30f, 31.f, 1e-6f, -1e-6f, 0.f};
  for (int i = 0; i < 6; ++i) x[i] = numbers[i];
  for (KernelChoice kernels : {KernelChoice(Target::cpu), KernelChoice(Emulated::by_32)}) {
    at::Tensor y = run_program(program, {{"x", x}}, kernels).at("soft_cap");
    EXPECT_EQ(y[0].item<float>(), 30.f);
    EXPECT_EQ(y[1].item<float>(), -30.f);
    EXPECT_NEAR(y[2].item<float>(), 30 * std::tanh(31. / 30), 1e-5);
    EXPECT_FLOAT_EQ(y[3].item<float>(), 1e-6f);
    EXPECT_FLOAT_EQ(y[4].item<float>(), -1e-6f);
    EXPECT_EQ(y[5].item<float>(), 0.f);
  }
}

TEST(SoftCap, RefusesCapsThatAreNotPositive) {
  Trace t("soft_cap");
  Var x = t.input("x", {{2, 3}});
  for (double cap : {0., -1., double{INFINITY}, double{NAN}})
    EXPECT_THROW(soft_cap(x, cap), InternalError) << cap;
}

Program clamped_program(const ClampedSwigluOptions& options, int64_t count) {
  Trace t("clamped");
  t.output(clamped_swiglu(t.input("gate", {{count}}), t.input("up", {{count}}), options));
  return t.finish();
}

// As torch.clamp: at the limit there is a gradient, beyond it none, and large numbers do no harm.
TEST(ClampedSwiglu, HasGradientsUpToItsLimits) {
  constexpr float kLimit = 7, kBeyond = 7.000001f;
  const float gates[]{kLimit, kBeyond, 1e30f, -kBeyond, -1e30f, 2, 2, 2, 2, NAN};
  const float ups[]{1, 1, 1, 1, 1, kLimit, -kLimit, kBeyond, -1e30f, NAN};
  constexpr int64_t kCount = std::ssize(gates);
  Program program = clamped_program({.alpha = 1.702, .limit = kLimit}, kCount);
  at::Tensor gate = at::full({kCount}, 0.f), up = at::full({kCount}, 0.f);
  for (int64_t i = 0; i < kCount; ++i) {
    gate[i] = gates[i];
    up[i] = ups[i];
  }
  for (const KernelChoice& kernels : {KernelChoice(Target::cpu), KernelChoice(Target::reference),
                                      KernelChoice(Emulated::by_32)}) {
    Step step = run_step(program, differentiate(program), {{"gate", gate}, {"up", up}},
                         {{"clamped_swiglu", at::full({kCount}, 1.f)}}, {}, kernels);
    const at::Tensor y = step.values.at("clamped_swiglu");
    auto value = [](double g, double u) { return (u + 1) * g / (1 + std::exp(-1.702 * g)); };
    EXPECT_NEAR(y[2].item<float>(), value(7, 1), 1e-5);
    EXPECT_EQ(y[4].item<float>(), 0.f);
    EXPECT_NEAR(y[8].item<float>(), value(2, -7), 1e-5);
    EXPECT_TRUE(std::isnan(y[9].item<float>()));
    const at::Tensor dgate = step.gradients.at("gate"), dup = step.gradients.at("up");
    // At -1e30 the sigmoid is 0.
    const bool gate_passes[]{true, false, false, true, false, true, true, true, true, false};
    const bool up_passes[]{true, true, true, true, false, true, true, false, false, false};
    for (int64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(dgate[i].item<float>() != 0, gate_passes[i]) << gates[i];
      EXPECT_EQ(dup[i].item<float>() != 0, up_passes[i]) << ups[i];
    }
  }
}

TEST(ClampedSwiglu, SaysItsOptionsAndRefusesOnesThatCannotBe) {
  Program program = clamped_program({.alpha = 1.702, .limit = 7}, 3);
  EXPECT_THAT(text(program, program.nodes[0]), HasSubstr("{alpha=1.702, limit=7}"));
  for (double limit : {0., -1., double{INFINITY}, double{NAN}})
    EXPECT_THROW(clamped_program({.alpha = 1, .limit = limit}, 3), InternalError) << limit;
  EXPECT_THROW(clamped_program({.alpha = NAN, .limit = 7}, 3), InternalError);
}

Program loss_program(double cap) {
  Trace t("loss");
  Var x = t.input("x", {{1, 40, 16}});
  Var w = t.weight("w", {{300, 16}}, {});
  t.output(
      linear_cross_entropy(x, w, t.batch("targets", {{1, 40}, Dtype::int32}), {.soft_cap = cap}),
      OutputRole::loss);
  return t.finish();
}

// Logits far below the cap are as good as they were; the memory is the same either way.
TEST(LinearCrossEntropy, WithAWideCapIsAsWithoutOne) {
  Program capped = loss_program(1e5), plain = loss_program(0);
  Tensors inputs{{"x", random_normal({{1, 40, 16}}, 1)},
                 {"w", random_normal({{300, 16}}, 2)},
                 {"targets", at::full({1, 40}, 7, at::kInt)}};
  auto run = [&](const Program& program) {
    return run_step(program, differentiate(program), inputs, random_cotangents(program, 3), {},
                    Target::cpu);
  };
  Step found = run(capped), expected = run(plain);
  EXPECT_LT(difference(found.values.at("linear_cross_entropy"),
                       expected.values.at("linear_cross_entropy")),
            1e-6);
  for (const auto& [name, gradient] : expected.gradients)
    EXPECT_LT(difference(found.gradients.at(name), gradient), 1e-5) << name;
  auto workspace = [](const Program& program) {
    const Node& node = program.nodes[0];
    return node.op->cpu.workspace_bytes(node.attrs, program.types(node.in),
                                        program.types(node.out));
  };
  EXPECT_EQ(workspace(capped), workspace(plain));
}

TEST(LinearCrossEntropy, SaysItsCapAndRefusesOnesThatCannotBe) {
  Program capped = loss_program(30), plain = loss_program(0);
  EXPECT_THAT(text(capped, capped.nodes[0]), HasSubstr("{soft_cap=30}"));
  EXPECT_THAT(text(plain, plain.nodes[0]), Not(HasSubstr("{")));
  EXPECT_THROW(loss_program(-1), InternalError);
  EXPECT_THROW(loss_program(INFINITY), InternalError);
}

}  // namespace
}  // namespace longshore::models
