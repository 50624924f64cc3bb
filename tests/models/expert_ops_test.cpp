// What the op cases do not show of ops on experts' rows and weights: numbers of threads, in which
// order sums are made, and what does not fit.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/expert_scale.h"
#include "longshore/models/ops/grouped_bias/grouped_bias.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/weigh_rows.h"
#include "tests/models/harness.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

using testing::HasSubstr;

// --- add_grouped_bias

Program bias_program(int64_t rows, int64_t experts, int64_t width, Dtype dtype = Dtype::float32) {
  Trace t("bias");
  t.output(add_grouped_bias(t.input("y", {{rows, width}, dtype}),
                            t.weight("bias", {{experts, width}, dtype}, {}),
                            t.batch("ends", {{experts}, Dtype::int32})));
  return t.finish();
}

Step run_bias(const Program& program, const Tensors& inputs, const Tensors& cotangents,
              const Tensors& sums, const KernelChoice& kernels) {
  const std::vector<ValueId> accumulate =
      sums.empty() ? std::vector<ValueId>{} : program.inputs_from(Source::weight);
  return run_step(program, differentiate(program, accumulate), inputs, cotangents, sums, kernels,
                  Checks::all);
}

TEST(GroupedBias, IsTheSameToTheBitForAnyNumberOfThreads) {
  constexpr int64_t kRows = 333, kWidth = 300;
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Program program = bias_program(kRows, 5, kWidth, dtype);
    Tensors inputs{{"y", random_normal({{kRows, kWidth}, dtype}, 1)},
                   {"bias", random_normal({{5, kWidth}, dtype}, 2)},
                   {"ends", at::tensor({0, 200, 201, 201, 333}, at::kInt)}};
    Tensors sums{{"bias", random_normal({{5, kWidth}}, 3)}};
    Tensors cotangents = random_cotangents(program, 4);
    expect_same_bits_on_any_threads(
        [&] { return run_bias(program, inputs, cotangents, sums, Target::cpu); });
  }
}

// An expert's sum is that of its rows, whatever is among the others': where it lies, and how many
// experts there are, changes no bit of it.
TEST(GroupedBias, GradientIsOfTheExpertsRowsAlone) {
  constexpr int64_t kRows = 150, kWidth = 40;
  const at::Tensor rows = random_normal({{kRows, kWidth}}, 1);
  auto gradient = [&](int64_t before, int64_t after, const KernelChoice& kernels) {
    const int64_t all = before + kRows + after;
    at::Tensor dy = at::full({all, kWidth}, NAN);
    dy.narrow(0, before, kRows).copy_(rows);
    const auto end = static_cast<int32_t>(before + kRows);
    Step step = run_bias(
        bias_program(all, 4, kWidth),
        {{"y", dy},
         {"bias", at::full({4, kWidth}, 0.f)},
         {"ends", at::tensor({static_cast<int32_t>(before), end, end, static_cast<int32_t>(all)},
                             at::kInt)}},
        {{"add_grouped_bias", dy}}, {}, kernels);
    EXPECT_EQ(step.gradients.at("bias")[2].count_nonzero().item<int64_t>(), 0);
    return step.gradients.at("bias")[1].clone();
  };
  for (const KernelChoice& kernels :
       {KernelChoice(Target::cpu), KernelChoice(Target::reference), KernelChoice(Emulated::by_256)})
    EXPECT_TRUE(equal_bits(gradient(0, 0, kernels), gradient(77, 3, kernels)));
}

// 20 000 equal rows: added one after the other in float32, they would be 1e-4 off.
TEST(GroupedBias, GradientDoesNotLoseSmallTermsOfLongSums) {
  constexpr int64_t kRows = 20'000;
  const at::Tensor dy = at::full({kRows, 3}, 0.1f);
  const double expected = kRows * static_cast<double>(0.1f);
  for (const KernelChoice& kernels : {KernelChoice(Target::cpu), KernelChoice(Emulated::by_256)}) {
    Step step = run_bias(
        bias_program(kRows, 1, 3),
        {{"y", dy}, {"bias", at::full({1, 3}, 0.f)}, {"ends", at::full({1}, kRows, at::kInt)}},
        {{"add_grouped_bias", dy}}, {}, kernels);
    EXPECT_NEAR(step.gradients.at("bias")[0][1].item<double>() / expected, 1, 1e-5);
  }
}

// A bias costs its input's gradient nothing.
TEST(GroupedBias, PassesItsCotangentOn) {
  BackwardProgram backward = differentiate(bias_program(4, 2, 3));
  ASSERT_EQ(backward.program.nodes.size(), 1u);
  EXPECT_EQ(backward.program.nodes[0].op, &add_grouped_bias_grad_op);
  EXPECT_THAT(text(backward.program, backward.program.nodes[0]), HasSubstr("{f32}"));
}

TEST(GroupedBias, RefusesWhatDoesNotFit) {
  Trace t("bias");
  Var y = t.input("y", {{4, 3}}), bias = t.weight("bias", {{2, 3}}, {});
  Var ends = t.batch("ends", {{2}, Dtype::int32});
  EXPECT_THROW(add_grouped_bias(y, t.weight("short", {{2, 2}}, {}), ends), InternalError);
  EXPECT_THROW(add_grouped_bias(y, t.weight("one", {{3}}, {}), ends), InternalError);
  EXPECT_THROW(add_grouped_bias(y, t.weight("narrow", {{2, 3}, Dtype::bfloat16}, {}), ends),
               InternalError);
  EXPECT_THROW(add_grouped_bias(y, bias, t.batch("more", {{3}, Dtype::int32})), InternalError);
  EXPECT_THROW(add_grouped_bias(y, bias, t.input("numbers", {{2}})), InternalError);
}

// --- weigh_rows

Program weigh_program(int64_t rows, int64_t width, Dtype dtype) {
  Trace t("weigh");
  t.output(weigh_rows(t.input("x", {{rows, width}, dtype}), t.input("weights", {{1, rows}}),
                      t.batch("order", {{rows}, Dtype::int32})));
  return t.finish();
}

TEST(WeighRows, IsTheSameToTheBitForAnyNumberOfThreads) {
  constexpr int64_t kRows = 133, kWidth = 67;
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Program program = weigh_program(kRows, kWidth, dtype);
    Tensors inputs{{"x", random_normal({{kRows, kWidth}, dtype}, 1)},
                   {"weights", random_normal({{1, kRows}}, 2)},
                   {"order", at::arange(kRows - 1, -1, -1, at::kInt)}};
    Tensors cotangents = random_cotangents(program, 3);
    expect_same_bits_on_any_threads([&] {
      return run_step(program, differentiate(program), inputs, cotangents, {}, Target::cpu,
                      Checks::all);
    });
  }
}

// The product of a bfloat16 and a float32 weight, which is not rounded to bfloat16 first.
TEST(WeighRows, RoundsOnce) {
  Program program = weigh_program(3, 333, Dtype::bfloat16);
  const at::Tensor x = random_normal({{3, 333}, Dtype::bfloat16}, 1);
  const at::Tensor weights = at::tensor({1.01f, -0.777f, 3.14159f});
  Tensors inputs{
      {"x", x}, {"weights", weights.view({1, 3})}, {"order", at::tensor({2, 0, 1}, at::kInt)}};
  const at::Tensor of_rows = weights.roll(1).unsqueeze(1);
  const at::Tensor expected = (x.to(at::kFloat) * of_rows).to(at::kBFloat16);
  ASSERT_FALSE(equal_bits(expected, x * of_rows.to(at::kBFloat16)));
  for (Target target : {Target::cpu, Target::reference})
    EXPECT_TRUE(equal_bits(run_program(program, inputs, target).at("weigh_rows"), expected));
}

TEST(WeighRows, RefusesWhatDoesNotFit) {
  Trace t("weigh");
  Var x = t.input("x", {{4, 3}}), weights = t.input("weights", {{2, 2}});
  Var order = t.batch("order", {{4}, Dtype::int32});
  EXPECT_THROW(weigh_rows(x, t.input("few", {{3}}), order), InternalError);
  EXPECT_THROW(weigh_rows(x, t.input("wide", {{4}, Dtype::float64}), order), InternalError);
  EXPECT_THROW(weigh_rows(x, weights, t.batch("short", {{3}, Dtype::int32})), InternalError);
  EXPECT_THROW(weigh_rows(x, weights, t.input("numbers", {{4}})), InternalError);
  EXPECT_THROW(weigh_rows(t.input("cube", {{4, 1, 3}}), weights, order), InternalError);
}

// --- scale_by_expert

Program scale_program(Shape shape, int64_t experts, Dtype dtype = Dtype::float32) {
  Trace t("scale");
  t.output(scale_by_expert(t.input("weights", {shape}), t.batch("experts", {shape, Dtype::int32}),
                           t.weight("scale", {{experts}, dtype}, {})));
  return t.finish();
}

TEST(ScaleByExpert, IsTheSameToTheBitForAnyNumberOfThreads) {
  const Shape shape{2, 333, 3};
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Program program = scale_program(shape, 7, dtype);
    BackwardProgram backward = differentiate(program, program.inputs_from(Source::weight));
    Tensors inputs{{"weights", random_normal({shape}, 1)},
                   {"experts", random_integers({2, 333, 3}, 7, 2)},
                   {"scale", random_normal({{7}, dtype}, 3)}};
    Tensors sums{{"scale", random_normal({{7}}, 4)}}, cotangents = random_cotangents(program, 5);
    expect_same_bits_on_any_threads([&] {
      return run_step(program, backward, inputs, cotangents, sums, Target::cpu, Checks::all);
    });
  }
}

// A NaN is its expert's alone, and an expert whom no token has has no gradient.
TEST(ScaleByExpert, SumsTheWeightsOfEachExpert) {
  Program program = scale_program({3, 2}, 4);
  Tensors inputs{{"weights", at::tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).view({3, 2})},
                 {"experts", at::tensor({0, 3, 3, 1, 0, 3}, at::kInt).view({3, 2})},
                 {"scale", at::tensor({1.f, -2.f, 100.f, 0.5f})}};
  Tensors cotangents{
      {"scale_by_expert", at::tensor({1.f, 1.f, 2.f, NAN, 10.f, -1.f}).view({3, 2})}};
  for (Target target : {Target::cpu, Target::reference}) {
    Step step = run_step(program, differentiate(program), inputs, cotangents, {}, target);
    EXPECT_TRUE(equal_bits(step.values.at("scale_by_expert"),
                           at::tensor({1.f, 1.f, 1.5f, -8.f, 5.f, 3.f}).view({3, 2})));
    const at::Tensor dscale = step.gradients.at("scale");
    EXPECT_EQ(dscale[0].item<float>(), 51);
    EXPECT_TRUE(std::isnan(dscale[1].item<float>()));
    EXPECT_EQ(dscale[2].item<float>(), 0);
    EXPECT_EQ(dscale[3].item<float>(), 2);
    EXPECT_EQ(step.gradients.at("weights")[2][1].item<float>(), -0.5f);
  }
}

TEST(ScaleByExpert, RefusesWhatDoesNotFit) {
  Trace t("scale");
  Var weights = t.input("weights", {{4, 2}}), scale = t.weight("scale", {{3}}, {});
  Var experts = t.batch("experts", {{4, 2}, Dtype::int32});
  EXPECT_THROW(scale_by_expert(weights, t.batch("flat", {{8}, Dtype::int32}), scale),
               InternalError);
  EXPECT_THROW(scale_by_expert(weights, t.input("numbers", {{4, 2}}), scale), InternalError);
  EXPECT_THROW(scale_by_expert(weights, experts, t.weight("matrix", {{3, 1}}, {})), InternalError);
  EXPECT_THROW(scale_by_expert(weights, experts, t.weight("wide", {{3}, Dtype::float64}, {})),
               InternalError);
  EXPECT_THROW(scale_by_expert(t.input("narrow", {{4, 2}, Dtype::bfloat16}), experts, scale),
               InternalError);
}

}  // namespace
}  // namespace longshore::models
