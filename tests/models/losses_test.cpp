// What the op cases do not show of the losses of whole values.
#include "models/ops/losses.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>

#include "base/error.h"
#include "models/trace.h"
#include "tests/models/harness.h"
#include "tests/models/op_cases.h"

namespace longshore::models {
namespace {

constexpr int64_t kCount = 300'001;  // several blocks, the last one short

Program all_losses(Dtype dtype) {
  Trace t("losses");
  Var x = t.input("x", {{kCount}, dtype});
  t.output(sum(x), OutputRole::loss);
  t.output(mean_square_error(x, t.input("target", {{kCount}, dtype})), OutputRole::loss);
  t.output(l2_penalty(t.weight("w", {{kCount}, dtype}, {}), 0.3), OutputRole::auxiliary_loss);
  return t.finish();
}

TEST(Losses, AreTheSameToTheBitForAnyNumberOfThreads) {
  int threads = omp_get_max_threads();
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Program program = all_losses(dtype);
    BackwardProgram backward = differentiate(program);
    Tensors inputs{{"x", random_normal({{kCount}, dtype}, 1)},
                   {"target", random_normal({{kCount}, dtype}, 2)},
                   {"w", random_normal({{kCount}, dtype}, 3)}};
    Tensors cotangents = random_cotangents(program, 4);
    auto run = [&](int count) {
      omp_set_num_threads(count);
      return run_step(program, backward, inputs, cotangents, {}, Target::cpu);
    };
    Step alone = run(1);
    for (int count : {2, 3, 7}) {
      Step found = run(count);
      for (const auto& [name, value] : alone.values)
        EXPECT_TRUE(equal_bits(found.values.at(name), value))
            << name << ", " << count << " threads";
      for (const auto& [name, gradient] : alone.gradients)
        EXPECT_TRUE(equal_bits(found.gradients.at(name), gradient))
            << name << ", " << count << " threads";
    }
  }
  omp_set_num_threads(threads);
}

// The same number 300 001 times: added one after the other in float32 they would be 3e-3 off.
TEST(Losses, DoNotLoseSmallTermsOfLongSums) {
  at::Tensor same = at::full({kCount}, 0.1f, at::kFloat);
  Tensors values = run_program(all_losses(Dtype::float32),
                               {{"x", same}, {"target", same * -2}, {"w", same}}, Target::cpu);
  double each = 0.1f;
  EXPECT_NEAR(values.at("sum").item<double>() / (kCount * each), 1, 1e-6);
  EXPECT_NEAR(values.at("mean_square_error").item<double>() / (9 * each * each), 1, 1e-6);
  EXPECT_NEAR(values.at("l2_penalty").item<double>() / (0.3 * kCount * each * each), 1, 1e-6);
}

// Nothing that is summed has to be kept for the way back.
TEST(Sum, GradientReadsItsCotangentAlone) {
  BackwardProgram backward = differentiate(all_losses(Dtype::bfloat16));
  auto gradient = std::find_if(backward.program.nodes.begin(), backward.program.nodes.end(),
                               [](const Node& node) { return node.op == &sum_grad_op; });
  ASSERT_NE(gradient, backward.program.nodes.end());
  EXPECT_EQ(gradient->in, std::vector{backward.cotangents[0]});
}

TEST(MeanSquareError, GivesGradientsToThoseThatWantThem) {
  Program program = all_losses(Dtype::float32);
  auto gradient_nodes = [&] {
    BackwardProgram backward = differentiate(program);
    EXPECT_EQ(backward.also_made.size(), 1u) << "the loss would be counted more than once";
    int count = 0;
    for (const Node& node : backward.program.nodes) count += node.op == &mean_square_error_grad_op;
    return count;
  };
  EXPECT_EQ(gradient_nodes(), 2);
  set_input_gradients(program, std::vector{program.find("target")});
  EXPECT_EQ(gradient_nodes(), 1);
}

TEST(MeanSquareError, RefusesATargetOfAnotherType) {
  Trace t("error");
  Var x = t.input("x", {{2, 3}, Dtype::float32});
  EXPECT_THROW(mean_square_error(x, t.input("narrow", {{2, 3}, Dtype::bfloat16})), InternalError);
  EXPECT_THROW(mean_square_error(x, t.input("long", {{3, 2}, Dtype::float32})), InternalError);
}

}  // namespace
}  // namespace longshore::models
