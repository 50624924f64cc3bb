// The losses that add up all elements of a value: sum, mean_square_error and l2_penalty.
#include "longshore/models/ops/kernels/blocked_sum.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/l2_penalty.h"
#include "longshore/models/ops/mean_square_error.h"
#include "longshore/models/ops/sum.h"
#include "tests/models/harness.h"
#include "tests/models/random_inputs.h"

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

TEST(BlockedSum, IsTheSameToTheBitForAnyNumberOfThreads) {
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Program program = all_losses(dtype);
    BackwardProgram backward = differentiate(program);
    Tensors inputs{{"x", random_normal({{kCount}, dtype}, 1)},
                   {"target", random_normal({{kCount}, dtype}, 2)},
                   {"w", random_normal({{kCount}, dtype}, 3)}};
    Tensors cotangents = random_cotangents(program, 4);
    expect_same_bits_on_any_threads(
        [&] { return run_step(program, backward, inputs, cotangents, {}, Target::cpu); });
  }
}

// The same number 300 001 times: added one after the other in float32 they would be 3e-3 off.
TEST(BlockedSum, KeepsSmallTermsOfLongSums) {
  at::Tensor same = at::full({kCount}, 0.1f, at::kFloat);
  Tensors values = run_program(all_losses(Dtype::float32),
                               {{"x", same}, {"target", same * -2}, {"w", same}}, Target::cpu);
  double each = 0.1f;
  EXPECT_NEAR(values.at("sum").item<double>() / (kCount * each), 1, 1e-6);
  EXPECT_NEAR(values.at("mean_square_error").item<double>() / (9 * each * each), 1, 1e-6);
  EXPECT_NEAR(values.at("l2_penalty").item<double>() / (0.3 * kCount * each * each), 1, 1e-6);
}

}  // namespace
}  // namespace longshore::models
