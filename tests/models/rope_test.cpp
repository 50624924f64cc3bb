// The scalings of rotary frequencies, read off the tables at position 1, whose angles they are.
#include "longshore/models/ops/rope/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/atan2.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "tests/models/harness.h"

namespace longshore::models {
namespace {

using testing::HasSubstr;

constexpr int64_t kHeadDim = 128;
constexpr double kBase = 500'000;
constexpr Llama3RopeScaling kLlama31{8, 1, 4, 8192};

struct Table {
  at::Tensor cos, sin;  // [positions, D/2]
};

Table table(const at::Tensor& positions, const RopeScaling& scaling, const KernelChoice& kernels) {
  Trace t("rope_table");
  RopeTable made = rope_table(t.batch("positions", {{1, positions.size(0)}, Dtype::int32}),
                              kHeadDim, kBase, scaling);
  t.output(made.cos);
  t.output(made.sin);
  Tensors values = run_program(t.finish(), {{"positions", positions.unsqueeze(0)}}, kernels);
  return {values.at("rope_table").squeeze(0), values.at("rope_table.1").squeeze(0)};
}

std::vector<double> frequencies(const RopeScaling& scaling, const KernelChoice& kernels) {
  Table at_one = table(at::arange(1, 2, at::kInt), scaling, kernels);
  at::Tensor angles = at::atan2(at_one.sin, at_one.cos).to(at::kDouble).flatten();
  std::vector<double> result;
  for (int64_t i = 0; i < kHeadDim / 2; ++i) result.push_back(angles[i].item<double>());
  return result;
}

const KernelChoice kAllKernels[]{Target::cpu, Target::reference, Emulated::by_32, Emulated::by_256};

TEST(RopeScaling, LinearIsAnotherUnitOfPosition) {
  for (KernelChoice kernels : kAllKernels) {
    Table scaled = table(at::arange(0, 400, 4, at::kInt), LinearRopeScaling{4}, kernels);
    Table plain = table(at::arange(0, 100, at::kInt), {}, kernels);
    EXPECT_TRUE(equal_bits(scaled.cos, plain.cos));
    EXPECT_TRUE(equal_bits(scaled.sin, plain.sin));
  }
}

TEST(RopeScaling, Llama3KeepsShortWavesAndStretchesLongOnes) {
  for (KernelChoice kernels : kAllKernels) {
    std::vector<double> plain = frequencies({}, kernels), scaled = frequencies(kLlama31, kernels);
    int kept = 0, stretched = 0, between = 0;
    for (int i = 0; i < kHeadDim / 2; ++i) {
      double wavelength = 2 * std::numbers::pi / plain[i], ratio = scaled[i] / plain[i];
      if (wavelength < 8192 / 4.) {
        ++kept;
        EXPECT_EQ(ratio, 1) << i;
      } else if (wavelength > 8192 / 1.) {
        ++stretched;
        EXPECT_NEAR(ratio, 1. / 8, 1e-7) << i;
      } else {
        ++between;
        double smooth = (8192 / wavelength - 1) / (4 - 1);
        EXPECT_NEAR(ratio, (1 - smooth) / 8 + smooth, 1e-6) << i;
      }
      EXPECT_LT(scaled[i], i > 0 ? scaled[i - 1] : 2) << i;
    }
    EXPECT_EQ(kept, 29);
    EXPECT_EQ(between, 6);
    EXPECT_EQ(stretched, 29);
  }
}

// OLMo 3's published factors: of 64 pairs those up to the 18th turn as before, from the 35th on an
// eighth as fast.
TEST(RopeScaling, YarnKeepsShortWavesAndStretchesLongOnes) {
  const YarnRopeScaling yarn{8, 8192, 32, 1, true, 1.2079441541679836};
  for (KernelChoice kernels : kAllKernels) {
    const std::vector<double> plain = frequencies({}, kernels), scaled = frequencies(yarn, kernels);
    for (int i = 0; i < kHeadDim / 2; ++i) {
      const double kept = i <= 18 ? 1 : i >= 35 ? 0 : (35 - i) / 17.;
      EXPECT_NEAR(scaled[i] / plain[i], kept + (1 - kept) / 8, 1e-6) << i;
    }
    const Table at_zero = table(at::arange(0, 1, at::kInt), yarn, kernels);
    EXPECT_EQ(at_zero.cos[0][0].item<float>(), 1.2079441541679836f);
  }
}

TEST(RopeScaling, RefusesWhatIsNotPositiveOrInOrder) {
  Trace t("rope_table");
  Var positions = t.batch("positions", {{1, 2}, Dtype::int32});
  auto make = [&](const RopeScaling& scaling) { rope_table(positions, 8, 100, scaling); };
  EXPECT_THROW(make(LinearRopeScaling{0}), InternalError);
  EXPECT_THROW(make(LinearRopeScaling{NAN}), InternalError);
  EXPECT_THROW(make(Llama3RopeScaling{-8, 1, 4, 8192}), InternalError);
  EXPECT_THROW(make(Llama3RopeScaling{8, 0, 4, 8192}), InternalError);
  EXPECT_NO_THROW(make(Llama3RopeScaling{8, 4, 4, 8192}));
  EXPECT_THROW(make(Llama3RopeScaling{8, 4.5, 4, 8192}), InternalError);
  EXPECT_THROW(make(Llama3RopeScaling{8, 1, 4, 0}), InternalError);
  EXPECT_NO_THROW(make(YarnRopeScaling{8, 4096, 32, 1, true, 1}));
  EXPECT_THROW(make(YarnRopeScaling{0, 4096, 32, 1, true, 1}), InternalError);
  EXPECT_THROW(make(YarnRopeScaling{8, 0, 32, 1, true, 1}), InternalError);
  EXPECT_THROW(make(YarnRopeScaling{8, 4096, 1, 32, true, 1}), InternalError);
  EXPECT_THROW(make(YarnRopeScaling{8, 4096, 32, 1, true, 0}), InternalError);
  EXPECT_THROW(rope_table(positions, 8, 1, YarnRopeScaling{8, 4096, 32, 1, true, 1}),
               InternalError);
}

TEST(RopeScaling, IsShown) {
  Trace t("rope_table");
  Var positions = t.batch("positions", {{1, 2}, Dtype::int32});
  rope_table(positions, 8, 100);
  rope_table(positions, 8, 100, LinearRopeScaling{4});
  rope_table(positions, 8, 100, kLlama31);
  RopeTable table = rope_table(positions, 4, 100, YarnRopeScaling{8, 4096, 32, 1, false, 1.5},
                               RopeTemperature{0.1, 4096});
  rope(t.input("x", {{1, 2, 16}, Dtype::float32}), table,
       {.head_dim = 8, .pairs = RopePairs::adjacent});
  std::string shown = text(t.program());
  EXPECT_THAT(shown, HasSubstr("{rotary_dim=8, base=100}"));
  EXPECT_THAT(shown, HasSubstr("{rotary_dim=8, base=100, linear factor=4}"));
  EXPECT_THAT(shown, HasSubstr("base=100, llama3 factor=8, low_freq_factor=1, high_freq_factor=4, "
                               "original_max_position_embeddings=8192}"));
  EXPECT_THAT(shown, HasSubstr("yarn factor=8, original_max_position_embeddings=4096, "
                               "beta_fast=32, beta_slow=1, not truncated, attention_factor=1.5, "
                               "temperature=0.1 each length=4096}"));
  EXPECT_THAT(shown, HasSubstr("{forward, head_dim=8, adjacent pairs}"));
}

}  // namespace
}  // namespace longshore::models
