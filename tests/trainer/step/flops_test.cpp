#include "longshore/trainer/step/flops.h"

#include <gtest/gtest.h>

#include "longshore/models/families/decoder.h"

namespace longshore::trainer {
namespace {

models::DecoderConfig llama() {
  return {.batch = 2,
          .length = 512,
          .vocabulary = 1000,
          .width = 256,
          .layers = 4,
          .query_heads = 4,
          .kv_heads = 2,
          .head_dim = 64,
          .mlp_width = 700};
}

constexpr double kTokens = 2 * 512;
constexpr double kLayer = 2 * kTokens * 256 * (4 * 64 + 2 * 2 * 64 + 4 * 64 + 3 * 700);
constexpr double kHead = 2 * kTokens * 256 * 1000;

// maxtext_utils.calculate_tflops_training_per_device.
TEST(TrainingFlops, AreMaxTexts) {
  double attention = 4 * kTokens * 512 * 256 / 2 * 4;
  double expected = 3 * (4 * kLayer + attention + kHead);
  EXPECT_NEAR(training_flops(models::decoder(llama()), 1) / expected, 1, 1e-3);
  EXPECT_DOUBLE_EQ(training_flops(models::decoder(llama()), 3),
                   3 * training_flops(models::decoder(llama()), 1));
}

TEST(TrainingFlops, LeaveOutGradientsThatNothingNeeds) {
  models::DecoderConfig config = llama();
  double all = training_flops(models::decoder(config), 1);
  models::Model model = models::decoder(config);
  // Only the head's own product has a gradient; the rest is forward.
  set_trainable(model, [](const std::string& name) { return name == "lm_head.weight"; });
  EXPECT_DOUBLE_EQ(training_flops(model, 1), all / 3 + kHead);
  // Everything hands gradients on, but no weight of a product has one.
  set_trainable(model, [](const std::string& name) { return name.find("embed") != name.npos; });
  EXPECT_DOUBLE_EQ(training_flops(model, 1), all - 4 * kLayer - kHead);

  config.lora = {.rank = 8, .targets = {"q_proj"}};
  double adapters = training_flops(models::decoder(config), 1);
  EXPECT_LT(adapters, 0.72 * all);
  EXPECT_GT(adapters, 0.6 * all);
}

}  // namespace
}  // namespace longshore::trainer
