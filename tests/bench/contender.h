// Configs that train side by side, step by step in turns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/batches.h"
#include "trainer/config/config.h"
#include "trainer/step/training_plans.h"
#include "trainer/step/training_session.h"

namespace longshore::bench {

class Contender {
 public:
  // On synthetic tokens, with weights from the seed.
  Contender(const trainer::Config& config, offload::Backend& backend);

  const trainer::TrainingPlans& plans() const { return plans_; }
  double step();  // one more; its seconds

 private:
  trainer::TrainingPlans plans_;
  trainer::TrainingSession session_;
  std::vector<data::Batch> batches_;  // of every step
  int64_t number_ = 0;
};

// A Llama of that size with a vocabulary of 8192, on the CPU.
struct Size {
  int64_t width, layers, length, batch;
};
trainer::Config llama(const Size& size, const std::string& dtype,
                      const std::vector<std::string>& keys);

// The median of so many steps of each, after one that is not counted; every other round goes
// backwards.
std::vector<double> median_seconds(const std::vector<std::unique_ptr<Contender>>& contenders,
                                   int rounds);

// Step times over those of the first contender, the median of so many: each step is held against
// the first one's steps before and behind it, so that a machine whose speed drifts changes nothing.
std::vector<double> relative_seconds(const std::vector<std::unique_ptr<Contender>>& contenders,
                                     int rounds);

}  // namespace longshore::bench
