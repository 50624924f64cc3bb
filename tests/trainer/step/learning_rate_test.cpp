#include "longshore/trainer/step/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longshore::trainer {
namespace {

const LearningRate kSchedule{
    .peak = 2e-3, .final_fraction = 0.1, .warmup_steps = 10, .schedule_steps = 110};

TEST(LearningRate, WarmsUpInALine) {
  EXPECT_DOUBLE_EQ(kSchedule.at(0), 2e-4);  // not 0: the first step learns
  for (int64_t step = 0; step < 10; ++step)
    EXPECT_DOUBLE_EQ(kSchedule.at(step), 2e-4 * static_cast<double>(step + 1));
}

TEST(LearningRate, DecaysAlongACosine) {
  EXPECT_DOUBLE_EQ(kSchedule.at(10), 2e-3);
  EXPECT_NEAR(kSchedule.at(60), (2e-3 + 2e-4) / 2, 1e-18);
  // A quarter of the way down the cosine has fallen by (1 - cos 45°) / 2.
  EXPECT_NEAR(kSchedule.at(35), 2e-4 + 1.8e-3 * (1 + std::sqrt(0.5)) / 2, 1e-18);
  for (int64_t step = 10; step < 109; ++step)
    EXPECT_GT(kSchedule.at(step), kSchedule.at(step + 1)) << step;
}

TEST(LearningRate, EndsAtItsFraction) {
  for (int64_t step : {110, 111, 1000, 1'000'000'000}) EXPECT_DOUBLE_EQ(kSchedule.at(step), 2e-4);
  LearningRate to_zero = kSchedule;
  to_zero.final_fraction = 0;
  EXPECT_NEAR(to_zero.at(110), 0, 1e-18);
}

TEST(LearningRate, WithoutWarmUpBeginsAtThePeak) {
  LearningRate schedule{.peak = 1, .final_fraction = 0, .warmup_steps = 0, .schedule_steps = 4};
  EXPECT_DOUBLE_EQ(schedule.at(0), 1);
  EXPECT_NEAR(schedule.at(2), 0.5, 1e-15);
}

TEST(LearningRate, EndsAtItsFractionAlsoWhereWarmUpFillsTheSchedule) {
  const LearningRate schedule{
      .peak = 1, .final_fraction = 0.5, .warmup_steps = 10, .schedule_steps = 10};
  EXPECT_DOUBLE_EQ(schedule.at(9), 1);
  for (int64_t step : {10, 11, 100}) EXPECT_DOUBLE_EQ(schedule.at(step), 0.5);
  const LearningRate none{.peak = 1, .final_fraction = 0.5};
  EXPECT_DOUBLE_EQ(none.at(0), 0.5);
}

// Warm-up is a part of the schedule, which is as long as the run unless the config says otherwise.
TEST(LearningRate, IsAsTheConfigSays) {
  Config config;
  config.steps = 110;
  config.learning_rate = 2e-3;
  config.warmup_steps_fraction = 0.1;
  config.cosine_learning_rate_final_fraction = 0.3;
  for (int64_t steps : {110, 40}) {
    const LearningRate schedule = learning_rate_schedule(config);
    EXPECT_EQ(schedule.peak, 2e-3);
    EXPECT_EQ(schedule.final_fraction, 0.3);
    EXPECT_EQ(schedule.warmup_steps, steps / 10);
    EXPECT_EQ(schedule.schedule_steps, steps);
    config.learning_rate_schedule_steps = 40;
  }
}

}  // namespace
}  // namespace longshore::trainer
