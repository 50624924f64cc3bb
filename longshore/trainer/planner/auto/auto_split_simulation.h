// Simulates the splits that the formula ranks highest, makes those fit that turn out not to, and
// looks for better splits near the best one.
#pragma once

#include <vector>

#include "longshore/trainer/planner/auto/auto_formula.h"
#include "longshore/trainer/planner/simulated_plan.h"

namespace longshore::trainer {

class SplitSimulator {
 public:
  // Splits keep the values of keys that the config sets.
  explicit SplitSimulator(const RunSpec& spec);

  // The plan of each split; they are computed on all cores.
  std::vector<SimulatedPlan> simulate_each(const std::vector<LayerSplit>& splits) const;

  // The plan of the split. If that does not fit, changes the split and returns its new plan: either
  // transfers start later, or fewer layers have the assignment that keeps more, whichever is
  // better.
  SimulatedPlan simulate_fitting(LayerSplit& split) const;

  // Simulates splits near `best`, whose plan is `found`: with other numbers of layers, then with
  // transfers that start earlier or later, always starting from the best split so far. Returns all
  // plans that were simulated.
  std::vector<SimulatedPlan> simulate_around(LayerSplit best, SimulatedPlan found) const;

 private:
  SimulatedPlan simulate(const LayerSplit& split) const;
  SimulatedPlan shift_layers(LayerSplit& split, SimulatedPlan simulated) const;
  bool may_shift(const LayerSplit& split) const;
  std::vector<LayerSplit> with_other_layers(const LayerSplit& split, int step) const;

  RunSpec spec_;
  bool sets_first_layers_, sets_prefetch_layers_;  // whether the config does
};

}  // namespace longshore::trainer
