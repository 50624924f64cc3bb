// What the op cases do not show of rms_norm: its weight's offset and shorter weights.
#include "longshore/models/ops/rms_norm/rms_norm.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/kernels/aten.h"
#include "tests/models/harness.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

using testing::HasSubstr;

constexpr double kEpsilon = 1e-6;

at::Tensor normed(Type x_type, const at::Tensor& x, const at::Tensor& weight,
                  const RmsNormOptions& options, const KernelChoice& kernels = Target::cpu) {
  Trace t("rms_norm");
  t.output(rms_norm(t.input("x", x_type), t.weight("w", type_of(weight), {}), kEpsilon, options));
  return run_program(t.finish(), {{"x", x}, {"w", weight}}, kernels).at("rms_norm");
}

TEST(RmsNorm, NormalisesHeadsAsRowsOfTheirOwn) {
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Type wide{{2, 5, 3 * 40}, dtype}, apart{{2, 5 * 3, 40}, dtype};
    at::Tensor x = random_normal(wide, 1), weight = random_normal({{40}, dtype}, 2);
    at::Tensor heads = normed(wide, x, weight, {});
    at::Tensor rows = normed(apart, x.view({2, 15, 40}), weight, {});
    EXPECT_TRUE(equal_bits(heads, rows.view(x.sizes())));
  }
}

TEST(RmsNorm, KeepsAStatisticForEachHead) {
  Trace t("rms_norm");
  rms_norm(t.input("x", {{2, 5, 12}}), t.weight("w", {{4}}, {}), kEpsilon);
  Program program = t.program();
  EXPECT_EQ(program[program.nodes[0].out[1]].type, (Type{{2 * 5 * 3}}));
}

TEST(RmsNorm, WithAnOffsetOfOneTakesZerosForOnes) {
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Type type{{3, 100}, dtype};
    at::Tensor x = random_normal(type, 1), zeros = at::zeros({100}, scalar_type(dtype));
    EXPECT_TRUE(equal_bits(normed(type, x, zeros, {.weight_offset = 1}),
                           normed(type, x, at::ones_like(zeros), {})));
  }
}

// 1 + 2^-9 is no bfloat16, but what the weight does must not be lost before the product.
TEST(RmsNorm, AddsTheOffsetBeforeRounding) {
  Type type{{7, 200}, Dtype::bfloat16};
  at::Tensor x = random_normal(type, 1);
  at::Tensor weight = random_normal({{200}, Dtype::bfloat16}, 2) / 256;
  at::Tensor exact =
      plain::rms_norm(x.to(at::kDouble), weight.to(at::kDouble), kEpsilon, 1).to(at::kBFloat16);
  at::Tensor rounded_first =
      plain::rms_norm(x.to(at::kDouble), (weight + 1).to(at::kDouble), kEpsilon).to(at::kBFloat16);
  for (KernelChoice kernels : {KernelChoice(Target::cpu), KernelChoice(Target::reference),
                               KernelChoice(Emulated::by_32)}) {
    at::Tensor found = normed(type, x, weight, {.weight_offset = 1}, kernels);
    // float32 within, so that a few of the 1400 may lie on the other side of a rounding.
    EXPECT_LT(found.ne(exact).sum().item<int64_t>(), 5);
    EXPECT_GT(found.ne(rounded_first).sum().item<int64_t>(), 100);
  }
}

TEST(RmsNorm, RefusesWeightsThatDoNotDivideRows) {
  Trace t("rms_norm");
  Var x = t.input("x", {{2, 12}});
  EXPECT_THROW(rms_norm(x, t.weight("odd", {{5}}, {}), kEpsilon), InternalError);
  EXPECT_THROW(rms_norm(x, t.weight("long", {{24}}, {}), kEpsilon), InternalError);
  EXPECT_THROW(rms_norm(x, t.weight("matrix", {{3, 4}}, {}), kEpsilon), InternalError);
}

TEST(RmsNorm, ShowsItsOffset) {
  Trace t("rms_norm");
  Var x = t.input("x", {{2, 12}});
  t.output(rms_norm(x, t.weight("w", {{12}}, {}), 1e-6, {.weight_offset = 1}));
  Program program = t.finish();
  EXPECT_THAT(text(program), HasSubstr("{epsilon=1e-06, weight_offset=1}"));
  EXPECT_THAT(text(differentiate(program).program), HasSubstr("weight, weight_offset=1}"));
}

}  // namespace
}  // namespace longshore::models
