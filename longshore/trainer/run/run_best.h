// A RunBest finds the best of a run's evaluations, and whether the run ends since they get no
// better.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "longshore/trainer/checkpoint/best_so_far.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/distributed/world.h"
#include "longshore/trainer/run/opened_run.h"

namespace longshore::trainer {

// The first process knows it; all call its functions that say so, and agree on what these give.
class RunBest {
 public:
  // As the checkpoint knows it that the run goes on from, unless that is another run's or of
  // another metric. All must outlive this.
  RunBest(const Config& config, const OpenedRun& opened, World& world);

  // Whether the config goes by a metric; else there is nothing of what follows.
  bool has_metric() const { return best_.has_value(); }
  // Whether the best state is kept.
  bool keeps() const { return config_.keep_best != KeepBest::none; }

  // As metrics.jsonl names it.
  const std::string& metric() const { return best_->metric; }
  // Takes the metric after so many steps, where there was an evaluation; gives whether it is the
  // best so far. All processes call it.
  bool add(int64_t steps, std::optional<double> metric);
  // Whether it has got no better for as many evaluations as early_stopping_patience says. Since
  // add() was called last.
  bool ends_run() const { return ends_run_; }

  // Of the first process.
  const std::optional<BestSoFar>& so_far() const { return best_; }
  bool is_best(int64_t steps) const { return keeps() && best_->step == steps; }
  // "validation_loss 4.5778 after 40 steps"
  std::string text() const;
  // Why the run ends.
  std::string reason() const;

 private:
  const Config& config_;
  World& world_;
  Better better_ = Better::smaller;
  std::optional<BestSoFar> best_;
  bool ends_run_ = false;
};

}  // namespace longshore::trainer
