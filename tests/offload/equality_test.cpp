// The first test of any change here: what is kept, moved or computed again changes no bit of the
// loss, of the gradients or of what they make of the weights.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/models/cpu_dtypes.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using Custom = std::map<std::string, Action>;

struct Choice {
  std::string policy;
  Custom custom;
};

// From keeping nothing to keeping every label.
std::vector<Choice> choices() {
  return {{"full", {}},
          {"save_qkv_proj", {}},
          {"custom", {{"context", Action::keep}, {"mlpwi_0", Action::keep}}},
          {"custom", {{"query_proj", Action::keep}, {"out_proj", Action::keep}}},
          {"custom",
           {{"query_proj", Action::keep},
            {"key_proj", Action::keep},
            {"value_proj", Action::keep},
            {"context", Action::keep},
            {"out_proj", Action::keep},
            {"mlpwi_0", Action::keep},
            {"mlpwi_1", Action::keep},
            {"mlpwo", Action::keep}}}};
}

std::string printed(const Training& training) {
  std::string all;
  for (const Plan& plan : training.plans.plans) all += text(plan);
  return all;
}

void expect_equal_whatever_is_kept(TrainingOptions options) {
  options.policy = "none";
  Training none = train(options);
  // Something is learned, finite and clipped: else much could go unnoticed.
  for (const trainer::StepResult& result : none.results) {
    EXPECT_TRUE(std::isfinite(result.loss));
    EXPECT_GT(result.gradient_norm, options.clipping_threshold);
  }
  EXPECT_NE(none.results.front().loss, none.results.back().loss);

  std::set<std::string> plans{printed(none)};
  for (const Choice& choice : choices()) {
    options.policy = choice.policy;
    options.custom = choice.custom;
    Training other = train(options);
    ASSERT_TRUE(plans.insert(printed(other)).second) << choice.policy << " has a plan seen before";
    EXPECT_EQ(differences(none, other), "")
        << choice.policy << " of " << choice.custom.size() << " keys";
  }
}

using Parameters = std::tuple<models::Dtype, bool, int>;  // dtype, tied, micro-batches

class LlamaEquality : public testing::TestWithParam<Parameters> {};

TEST_P(LlamaEquality, WhateverIsKeptGivesTheBitsOfNone) {
  auto [dtype, tied, micro_batches] = GetParam();
  if (dtype == models::Dtype::bfloat16 && !models::multiplies_bfloat16())
    GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  models::DecoderConfig config = tiny_llama(dtype);
  config.tied_embeddings = tied;
  expect_equal_whatever_is_kept({.model = models::decoder(config), .micro_batches = micro_batches});
}

std::string case_name(const testing::TestParamInfo<Parameters>& info) {
  auto [dtype, tied, micro_batches] = info.param;
  return std::string(models::name(dtype)) + (tied ? "_tied_" : "_untied_") +
         std::to_string(micro_batches);
}

INSTANTIATE_TEST_SUITE_P(Cases, LlamaEquality,
                         testing::Combine(testing::Values(models::Dtype::float32,
                                                          models::Dtype::bfloat16),
                                          testing::Bool(), testing::Values(1, 3)),
                         case_name);

TEST(Equality, WhateverAToyKeepsGivesTheBitsOfNone) {
  expect_equal_whatever_is_kept({.model = toy()});
  expect_equal_whatever_is_kept({.model = toy(), .micro_batches = 2});
}

// Longer than a tile of attention, wider than a chunk of the cross-entropy.
TEST(Equality, SeveralTilesAndChunksGiveTheBitsOfNone) {
  models::DecoderConfig config = tiny_llama();
  config.batch = 3;
  config.length = 300;
  config.vocabulary = 2500;
  config.layers = 2;
  for (models::Dtype dtype : models::cpu_dtypes()) {
    config.dtype = dtype;
    expect_equal_whatever_is_kept(
        {.model = models::decoder(config), .steps = 2, .clipping_threshold = 0.1});
  }
}

// The comparison itself sees a single step, and a single bit.
TEST(Equality, DifferencesAreSeen) {
  Training a = train({}), b = train({});
  EXPECT_EQ(differences(a, b), "");
  EXPECT_NE(differences(a, train({.learning_rate = 1.0001e-2})), "");
  b.state["decoder.1.compute"][17] ^= std::byte{1};
  EXPECT_EQ(differences(a, b), "decoder.1.compute differs");
}

}  // namespace
}  // namespace longshore::offload
