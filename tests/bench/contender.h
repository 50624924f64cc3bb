// Configs that train side by side, step by step in turns.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "longshore/data/rows/batches.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/step/training_session.h"

namespace longshore::bench {

class Contender {
 public:
  // On synthetic tokens, with weights from the seed.
  Contender(const trainer::Config& config, offload::Backend& backend);

  const trainer::TrainingPlans& plans() const { return plans_; }
  double step();                                            // one more; its seconds
  double loss() const { return loss_; }                     // of the last step
  std::vector<offload::Event> record();                     // of one more
  const data::Batch& batch() const { return batches_[0]; }  // the same at each step
  const offload::Arguments& arguments() { return session_.arguments(); }

 private:
  trainer::StepScalars next();

  trainer::TrainingPlans plans_;
  trainer::TrainingSession session_;
  std::vector<data::Batch> batches_;  // of every step
  int64_t number_ = 0;
  double loss_ = 0;
};

// A Llama of that size, or with experts a Mixtral, on the CPU.
struct Size {
  int64_t width, layers, length, batch;
  int64_t ffn = 11 * width / 4, vocabulary = 8192;
  int64_t experts = 0, experts_per_token = 2;
};
trainer::Config llama(const Size& size, const std::string& dtype,
                      const std::vector<std::string>& keys);

// Of recorded events, by lane and op.
std::map<std::pair<offload::Lane, std::string>, double> seconds_by_op(
    const std::vector<offload::Event>& events);

}  // namespace longshore::bench
