// A micro-batches of B rows are one batch of A*B rows: the same data, the same loss, and gradients
// that differ only by the order in which they were added.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

struct Bounds {
  double loss, gradient;  // relative
};

void expect_equal_to_large_batch(models::DecoderConfig config, int64_t micro_batches,
                                 const Bounds& bounds) {
  models::DecoderConfig large = config;
  large.batch = config.batch * micro_batches;
  auto batches = [&](const models::DecoderConfig& c) {
    return data::synthetic_batches({c.batch, c.length}, static_cast<int32_t>(c.vocabulary),
                                   kDataSeed);
  };
  data::BatchSource small_source = batches(config), large_source = batches(large);

  std::vector<data::Batch> parts;
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < micro_batches; ++i) {
    parts.push_back(small_source(i));
    tokens.insert(tokens.end(), parts.back()["tokens"].begin(), parts.back()["tokens"].end());
  }
  data::Batch whole = large_source(0);
  ASSERT_EQ(tokens, whole["tokens"]);

  double loss_gradient = 1.0 / static_cast<double>(whole.total_weights);
  for (const char* policy : {"none", "full"}) {
    PassResult accumulated = run_pass(
        {.model = models::decoder(config), .policy = policy, .loss_gradient = loss_gradient},
        parts);
    PassResult once = run_pass(
        {.model = models::decoder(large), .policy = policy, .loss_gradient = loss_gradient},
        {whole});
    EXPECT_NEAR(accumulated.loss / once.loss, 1, bounds.loss);
    double worst = 0;
    ASSERT_EQ(accumulated.gradients.size(), once.gradients.size());
    for (const auto& [name, gradient] : once.gradients) {
      double found = relative_difference(accumulated.gradients.at(name), gradient);
      EXPECT_LE(found, bounds.gradient) << name;
      worst = std::max(worst, found);
    }
    std::printf("%s %s%s, %lld micro-batches: worst gradient differs by %.1e\n",
                models::name(config.dtype), policy, config.tied_embeddings ? " tied" : "",
                static_cast<long long>(micro_batches), worst);
  }
}

TEST(Accumulation, IsTheLargeBatchInFloat32) {
  for (int64_t micro_batches : {2, 3, 4})
    for (bool tied : {false, true}) {
      models::DecoderConfig config = tiny_llama();
      config.tied_embeddings = tied;
      expect_equal_to_large_batch(config, micro_batches, {.loss = 1e-6, .gradient = 2e-6});
    }
}

// Activations are rounded row by row, alike in both; sums of weight gradients are float32.
TEST(Accumulation, IsTheLargeBatchInBfloat16) {
  if (!models::multiplies_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  expect_equal_to_large_batch(tiny_llama(models::Dtype::bfloat16), 3,
                              {.loss = 1e-5, .gradient = 2e-3});
}

// A whole step too: the update divides by the targets of the whole step, not of a micro-batch.
TEST(Accumulation, AStepIsTheLargeBatchsStep) {
  models::DecoderConfig small = tiny_llama(), large = small;
  large.batch *= 3;
  Training accumulated = train({.model = models::decoder(small), .micro_batches = 3, .steps = 2});
  Training once = train({.model = models::decoder(large), .steps = 2});
  for (size_t i = 0; i < once.results.size(); ++i) {
    EXPECT_EQ(accumulated.results[i].total_weights, once.results[i].total_weights);
    EXPECT_NEAR(accumulated.results[i].loss, once.results[i].loss, 1e-5);
    EXPECT_NEAR(accumulated.results[i].gradient_norm / once.results[i].gradient_norm, 1, 1e-5);
  }
}

}  // namespace
}  // namespace longshore::offload
