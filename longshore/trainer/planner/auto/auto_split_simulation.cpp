#include "longshore/trainer/planner/auto/auto_split_simulation.h"

#include <algorithm>
#include <cmath>

#include "longshore/trainer/planner/auto/auto_search_space.h"

namespace longshore::trainer {
namespace {

using offload::Assignment;

// The depth of a plan that does not fit with the usual one: later transfers occupy less memory at
// once.
constexpr double kLaterDepth = kPrefetchDistances[kUsualDepth - 1];
// The depths that are tried for the best plan.
constexpr double kNeighbouringDepths[] = {kPrefetchDistances[kUsualDepth - 1],
                                          kPrefetchDistances[kUsualDepth + 1]};
// By how many layers the best split is moved either way, one after the other. The sums of these
// reach every number up to 7.
constexpr int kLayerSteps[] = {4, 2, 1};
// The most attempts to make a plan fit with other numbers of layers. The first goes by the missing
// bytes of the original plan, each other one by those that its predecessor still misses.
constexpr int kMaxShifts = 3;

}  // namespace

SplitSimulator::SplitSimulator(const RunSpec& spec)
    : spec_(spec),
      sets_first_layers_(first_layers_set(spec.config()).has_value()),
      sets_prefetch_layers_(is_set(spec.config(), "prefetch_layers")) {}

SimulatedPlan SplitSimulator::simulate(const LayerSplit& split) const {
  return simulated_plan(spec_.with(split_config(split)));
}

std::vector<SimulatedPlan> SplitSimulator::simulate_each(
    const std::vector<LayerSplit>& splits) const {
  std::vector<RunSpec> specs;
  for (const LayerSplit& split : splits) specs.push_back(spec_.with(split_config(split)));
  return simulated_plans(specs);
}

SimulatedPlan SplitSimulator::simulate_fitting(LayerSplit& split) const {
  SimulatedPlan simulated = simulate(split);
  if (simulated.fits()) return simulated;
  LayerSplit late = split;
  late.prefetch_layers = kLaterDepth;
  SimulatedPlan simulated_late = simulate(late),
                shifted = shift_layers(split, std::move(simulated));
  if (!is_better(simulated_late, shifted)) return shifted;
  split = late;
  return simulated_late;
}

// `simulated` is the plan of the split and does not fit.
SimulatedPlan SplitSimulator::shift_layers(LayerSplit& split, SimulatedPlan simulated) const {
  const std::vector<Assignment>& assignments = split.base->choices->assignments;
  const double more = assignments[split.first].kept_bytes - assignments[split.others].kept_bytes;
  if (!may_shift(split) || more == 0) return simulated;
  for (int i = 0; i < kMaxShifts && !simulated.fits() && !simulated.is_refused(); ++i) {
    // A double, since the number overflows an integer if the assignments hardly differ.
    const double shift =
        std::ceil(static_cast<double>(missing_bytes(simulated.room)) / std::abs(more));
    const double layers = split.layers + (more > 0 ? -shift : shift);
    if (layers < 1 || layers > split.base->choices->layers) break;
    split.layers = static_cast<int>(layers);
    simulated = simulate(split);
  }
  return simulated;
}

bool SplitSimulator::may_shift(const LayerSplit& split) const {
  return split.first != split.others && !sets_first_layers_;
}

std::vector<SimulatedPlan> SplitSimulator::simulate_around(LayerSplit best,
                                                           SimulatedPlan found) const {
  std::vector<SimulatedPlan> all;
  auto try_each = [&](const std::vector<LayerSplit>& splits) {
    std::vector<SimulatedPlan> simulated = simulate_each(splits);
    for (size_t i = 0; i < splits.size(); ++i)
      if (is_better(simulated[i], found)) {
        best = splits[i];
        found = simulated[i];
      }
    std::ranges::move(simulated, std::back_inserter(all));
  };
  for (int step : kLayerSteps) try_each(with_other_layers(best, step));
  const bool has_transfers = found.config.origins.contains("prefetch_layers");
  if (!has_transfers || sets_prefetch_layers_) return all;
  std::vector<LayerSplit> nearby;
  for (double prefetch_layers : kNeighbouringDepths) {
    nearby.push_back(best);
    nearby.back().prefetch_layers = prefetch_layers;
  }
  try_each(nearby);
  return all;
}

std::vector<LayerSplit> SplitSimulator::with_other_layers(const LayerSplit& split, int step) const {
  std::vector<LayerSplit> splits;
  if (!may_shift(split)) return splits;
  for (int layers : {split.layers - step, split.layers + step})
    if (layers > 0 && layers <= split.base->choices->layers) {
      splits.push_back(split);
      splits.back().layers = layers;
    }
  return splits;
}

}  // namespace longshore::trainer
