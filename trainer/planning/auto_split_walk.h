// Walks what the formula finds best, makes it fit where it turns out not to, and looks for better
// ones around the best.
#pragma once

#include <vector>

#include "trainer/planning/auto_formula.h"
#include "trainer/planning/walked_plan.h"

namespace longshore::trainer {

class SplitWalker {
 public:
  // Keys that `config` sets stay. `hardware` has to outlive it.
  SplitWalker(const Config& config, models::Target target, const offload::Hardware& hardware);

  // On all cores.
  std::vector<WalkedPlan> walk_each(const std::vector<LayerSplit>& splits) const;

  // The plan of the split. Where that does not fit: of it with transfers that start later, or with
  // fewer layers of the kind that keeps more, whichever is better; the split becomes that.
  WalkedPlan walk_fitting(LayerSplit& split) const;

  // All plans that were walked around `best`, whose plan is `found`: other numbers of layers, and
  // transfers that start earlier or later. Each goes on from the best so far.
  std::vector<WalkedPlan> walk_around(LayerSplit best, WalkedPlan found) const;

 private:
  WalkedPlan walk(const LayerSplit& split) const;
  WalkedPlan shift_layers(LayerSplit& split, WalkedPlan walked) const;
  bool may_shift(const LayerSplit& split) const;
  std::vector<LayerSplit> with_other_layers(const LayerSplit& split, int step) const;

  models::Target target_;
  const offload::Hardware& hardware_;
  bool sets_first_layers_, sets_layers_ahead_;
};

}  // namespace longshore::trainer
