// Training as a whole: a model learns what only the context tells, and loses it when the context is
// shuffled.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "longshore/models/families/decoder.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/trainer/distributed/connect.h"
#include "longshore/trainer/run/evaluate.h"
#include "longshore/trainer/step/step.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/offload/adamw_states.h"

namespace longshore::trainer {
namespace {

constexpr int64_t kRows = 16, kLength = 32, kPeriod = 8;
constexpr int32_t kVocabulary = 16;

// Rows that repeat eight random tokens: the next token is the one eight back, and its frequency
// tells nothing. The first period is not trained.
data::Batch repeating_rows(int64_t index) {
  data::Batch batch{.shape = {kRows, kLength}};
  std::mt19937 random(static_cast<unsigned>(index));
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<int32_t> period(kPeriod);
    for (int32_t& token : period) token = static_cast<int32_t>(random() % kVocabulary);
    for (int32_t t = 0; t < kLength; ++t) {
      bool trained = t + 1 >= kPeriod;
      batch["tokens"].push_back(period[t % kPeriod]);
      batch["targets"].push_back(trained ? period[(t + 1) % kPeriod] : data::kIgnoredTarget);
      batch["positions"].push_back(t);
      batch.total_weights += trained;
    }
  }
  return batch;
}

// The same tokens in another order; only the last target, which its own period would have told, is
// asked for.
data::Batch last_target(data::Batch batch, bool shuffled) {
  std::mt19937 random(99);
  batch.total_weights = kRows;
  for (int64_t row = 0; row < kRows; ++row) {
    auto tokens = batch["tokens"].begin() + row * kLength, targets = batch["targets"].begin();
    std::fill_n(targets + row * kLength, kLength - 1, data::kIgnoredTarget);
    if (shuffled) std::shuffle(tokens, tokens + kLength - 1, random);
  }
  return batch;
}

TEST(Learning, UsesTheContext) {
  models::DecoderConfig config{.batch = kRows,
                               .length = kLength,
                               .vocabulary = kVocabulary,
                               .width = 64,
                               .layers = 2,
                               .query_heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .mlp_width = 128};
  models::Model model = models::decoder(config);
  offload::ParameterLayout layout =
      offload::lay_out(model, {.optimizers = offload::adamw_states()});
  StepOptions options{
      .policy = offload::keep_all(),
      .optimizer = OptimizerOptions{.optimizers = {models::adamw({0.9, 0.95, 1e-8, 0.0})},
                                    .clipping_threshold = 1}};
  StepPlans plans = plan_step(model, layout, options, models::Target::cpu);
  offload::Plan evaluation = plan_forward(model, layout, "evaluate", {}, models::Target::cpu);

  auto backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments arguments(*backend, ledger);
  offload::Arenas arenas(*backend, {&plans.plans[0], &evaluation});
  initialize(layout, 1, arguments);
  TrainStep step(plans, *backend, arguments, arenas);
  for (int64_t i = 0; i < 500; ++i)
    step.run({repeating_rows(i)}, {.learning_rate = 3e-3, .number = i + 1}, ledger);

  offload::Executable executable(evaluation, *backend, arguments, arenas);
  StepInputs inputs(plans, *backend, arguments, arenas);
  auto world = connect({}, models::Target::cpu);
  auto held_out_loss = [&](bool shuffled) {
    const data::BatchSource batches = [&](int64_t i) {
      return last_target(repeating_rows(10000 + i), shuffled);
    };
    const std::optional<LossSum> sum =
        evaluate(executable, inputs, {.batches = batches, .of_others = {}, .count = 8}, *backend,
                 arguments, ledger, *world, [] { return false; });
    return sum->mean();
  };
  double chance = std::log(static_cast<double>(kVocabulary));
  EXPECT_LT(held_out_loss(false), 0.25 * chance);
  EXPECT_GT(held_out_loss(true), 0.5 * chance);
}

}  // namespace
}  // namespace longshore::trainer
