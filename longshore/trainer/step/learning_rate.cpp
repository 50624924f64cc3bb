#include "longshore/trainer/step/learning_rate.h"

#include <cmath>
#include <numbers>

namespace longshore::trainer {

double LearningRate::at(int64_t step) const {
  if (step >= schedule_steps) return peak * final_fraction;
  if (step < warmup_steps) return peak * static_cast<double>(step + 1) / warmup_steps;
  const double progress =
      static_cast<double>(step - warmup_steps) / static_cast<double>(schedule_steps - warmup_steps);
  double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return peak * (final_fraction + (1 - final_fraction) * cosine);
}

LearningRate learning_rate_schedule(const Config& config) {
  const int64_t steps = config.learning_rate_schedule_steps.value_or(config.steps);
  return {.peak = config.learning_rate,
          .final_fraction = config.cosine_learning_rate_final_fraction,
          .warmup_steps = std::llround(config.warmup_steps_fraction * static_cast<double>(steps)),
          .schedule_steps = steps};
}

}  // namespace longshore::trainer
