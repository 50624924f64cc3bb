// A Trainer does what its parts do: gradients are those of ValueAndGrad, updates the optimizer's
// rule, first values the seed's; and what it leaves is the same wherever states live.
#include "longshore/trainer/step/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longshore/base/error.h"
#include "longshore/models/families/toys.h"
#include "longshore/models/ir/stages.h"
#include "longshore/models/ops/update/sgd.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/value_and_grad.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/message_of.h"
#include "tests/offload/toy_models.h"

namespace longshore::trainer {
namespace {

using offload::MemoryKind;
using offload::Runtime;

const models::ToyB kSizes{.rows = 12, .width = 16, .layers = 3, .init_deviation = 0.25};
constexpr uint64_t kSeed = 3;

std::vector<float> numbers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  return values;
}

std::string weight(int layer) { return "layers." + std::to_string(layer) + ".w"; }

TEST(Trainer, StepsAlongTheGradients) {
  Runtime runtime{offload::make_cpu_backend()};
  const models::Model model = models::toy_b(kSizes);
  const std::vector<float> x = numbers(kSizes.rows * kSizes.width);
  offload::ValueAndGrad gradients(runtime, model);
  initialize(gradients.layout(), kSeed, gradients.arguments());
  gradients.set_batch("x", x);

  Trainer trainer(runtime, model,
                  {.optimizer = models::sgd({.momentum = 0, .weight_decay = 0}), .seed = kSeed});
  trainer.set_batch("x", x);
  for (int step = 0; step < 3; ++step) {
    double squares = 0;
    std::vector<std::vector<float>> expected;
    for (int layer = 0; layer < kSizes.layers; ++layer)
      expected.push_back(trainer.parameter(weight(layer)));
    const double loss = gradients();
    for (int layer = 0; layer < kSizes.layers; ++layer) {
      const std::vector<float> gradient = gradients.gradient(weight(layer));
      for (size_t i = 0; i < gradient.size(); ++i) {
        squares += static_cast<double>(gradient[i]) * gradient[i];
        expected[layer][i] -= 0.5f * gradient[i];
      }
    }
    const StepResult result = trainer.step(0.5);
    EXPECT_EQ(result.loss + result.auxiliary_loss, loss);
    EXPECT_NEAR(result.gradient_norm / std::sqrt(squares), 1, 1e-6);
    for (int layer = 0; layer < kSizes.layers; ++layer) {
      const std::vector<float> found = trainer.parameter(weight(layer));
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[layer][i], 1e-6) << step << " " << layer << " " << i;
      gradients.set_parameter(weight(layer), found);
    }
  }
}

// Clipping by the own norm with states in host memory defers updates into the next step.
TEST(Trainer, LeavesTheSameWhereverStatesLive) {
  auto train = [](const TrainerOptions& options) {
    Runtime runtime{offload::make_cpu_backend()};
    Trainer trainer(runtime, models::toy_b(kSizes), options);
    trainer.set_batch("x", numbers(kSizes.rows * kSizes.width));
    std::vector<float> left;
    for (int step = 0; step < 3; ++step) {
      left.push_back(static_cast<float>(trainer.step(1e-2).loss));
      if (step != 1) continue;  // what is deferred is not lost, and goes before what is set
      const std::vector<float> second = trainer.parameter(weight(1));
      trainer.set_parameter(weight(0), second);
    }
    for (int layer = 0; layer < kSizes.layers; ++layer)
      std::ranges::copy(trainer.parameter(weight(layer)), std::back_inserter(left));
    return left;
  };
  const MemoryKind host = MemoryKind::pinned_host;
  const std::string x[] = {"x"};
  TrainerOptions options{.clipping_threshold = 0.1, .seed = kSeed};
  const std::vector<float> expected = train(options);
  for (const offload::Homes& homes :
       {offload::Homes{.optimizer = host}, offload::Homes{host, host, host}}) {
    options.homes = homes;
    for (const offload::Policy& policy : {offload::keep_all(), offload::save_and_offload({}, x)}) {
      options.policy = policy;
      EXPECT_EQ(train(options), expected);
    }
  }
  options.seed = kSeed + 1;
  EXPECT_NE(train(options), expected);
}

TEST(Trainer, TrainsMastersOfNarrowWeights) {
  Runtime runtime{offload::make_cpu_backend()};
  models::ToyB sizes = kSizes;
  sizes.dtype = models::Dtype::bfloat16;
  Trainer trainer(runtime, models::toy_b(sizes), {.seed = kSeed});
  const float fine = 1 + 1.0f / 1024;  // which is 1 in bfloat16
  const std::vector<float> values(static_cast<size_t>(sizes.width * sizes.width), fine);
  trainer.set_parameter(weight(0), values);
  EXPECT_EQ(trainer.parameter(weight(0)), values);
  trainer.set_batch("x", numbers(sizes.rows * sizes.width));
  trainer.step(1e-5);
  EXPECT_NE(trainer.parameter(weight(0)), values);
  EXPECT_NEAR(trainer.parameter(weight(0))[0], fine, 1e-4);
}

// A decoder's loss is a sum over its targets.
TEST(Trainer, TakesIdsAndDividesSumsByTheirNumber) {
  Runtime runtime{offload::make_cpu_backend()};
  const models::DecoderConfig config = offload::tiny_llama();
  Trainer trainer(runtime, models::decoder(config), {.seed = kSeed});
  std::vector<int32_t> ids(static_cast<size_t>(config.batch * config.length)), places(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(i % static_cast<size_t>(config.vocabulary));
    places[i] = static_cast<int32_t>(i % static_cast<size_t>(config.length));
  }
  for (const char* name : {"tokens", "targets"}) trainer.set_batch(name, ids);
  trainer.set_batch("positions", places);
  const double first = trainer.step(1e-2, std::ssize(ids)).loss;
  EXPECT_NEAR(first, std::log(static_cast<double>(config.vocabulary)), 0.5);
  for (int i = 0; i < 10; ++i) trainer.step(1e-2, std::ssize(ids));
  EXPECT_LT(trainer.step(1e-2, std::ssize(ids)).loss, first / 2);
}

TEST(Trainer, SaysWhatItDoesNotTake) {
  Runtime runtime{offload::make_cpu_backend()};
  Trainer trainer(runtime, models::toy_a({.rows = 2, .width = 2, .inner = 2, .layers = 1}));
  const std::vector<float> four(4);
  const std::vector<int32_t> ids(4);
  EXPECT_EQ(message_of<UsageError>([&] { trainer.set_parameter("w", four); }),
            "no parameter is named 'w'; there are layers.0.w1, layers.0.w2");
  EXPECT_EQ(message_of<UsageError>([&] { trainer.set_batch("x", ids); }),
            "x: int32 values are given for f32[2,2]; expected a type of i32");
  EXPECT_EQ(message_of<UsageError>([&] { trainer.step(1e-3, 0); }),
            "a step's total_weights: found 0, expected at least 1");
  const std::vector<std::string> misspelt{"xx"};
  EXPECT_THAT(message_of<ConfigError>([&] {
                Trainer(runtime, models::toy_a({}),
                        {.policy = offload::save_and_offload({}, misspelt)});
              }),
              testing::HasSubstr("nearest: x"));
}

TEST(Stages, AreFoundByName) {
  const models::Model model = models::toy_a({});
  EXPECT_EQ(models::stage_named(model, "layers").layers.size(), 10);
  EXPECT_EQ(message_of<UsageError>([&] { models::stage_named(model, "layer"); }),
            "toy_a: no stage is named 'layer'; there are input, layers, sum");
}

}  // namespace
}  // namespace longshore::trainer
