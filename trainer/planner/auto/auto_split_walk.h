// Walks the splits that the formula ranks highest, makes those fit that turn out not to, and looks
// for better splits near the best one.
#pragma once

#include <vector>

#include "trainer/planner/auto/auto_formula.h"
#include "trainer/planner/walked_plan.h"

namespace longshore::trainer {

class SplitWalker {
 public:
  // Splits keep the values of keys that `config` sets. `hardware` has to outlive the walker.
  SplitWalker(const Config& config, models::Target target, const offload::Hardware& hardware);

  // The plan of each split; they are computed on all cores.
  std::vector<WalkedPlan> walk_each(const std::vector<LayerSplit>& splits) const;

  // The plan of the split. If that does not fit, changes the split and returns its new plan: either
  // transfers start later, or fewer layers have the assignment that keeps more, whichever is
  // better.
  WalkedPlan walk_fitting(LayerSplit& split) const;

  // Walks splits near `best`, whose plan is `found`: with other numbers of layers, then with
  // transfers that start earlier or later, always starting from the best split so far. Returns all
  // plans that were walked.
  std::vector<WalkedPlan> walk_around(LayerSplit best, WalkedPlan found) const;

 private:
  WalkedPlan walk(const LayerSplit& split) const;
  WalkedPlan shift_layers(LayerSplit& split, WalkedPlan walked) const;
  bool may_shift(const LayerSplit& split) const;
  std::vector<LayerSplit> with_other_layers(const LayerSplit& split, int step) const;

  models::Target target_;
  const offload::Hardware& hardware_;
  bool sets_first_layers_, sets_layers_ahead_;  // whether the config does
};

}  // namespace longshore::trainer
