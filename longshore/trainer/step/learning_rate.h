// The learning rate's schedule: linear warm-up, then cosine decay, then constant.
#pragma once

#include <cstdint>

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

struct LearningRate {
  double peak = 0;            // learning_rate
  double final_fraction = 0;  // cosine_learning_rate_final_fraction
  int64_t warmup_steps = 0;
  int64_t schedule_steps = 0;  // warm-up and decay together

  // The rate of step `step`, counted from 0. The first step's rate is above 0.
  double at(int64_t step) const;
};

LearningRate learning_rate_schedule(const Config& config);

}  // namespace longshore::trainer
