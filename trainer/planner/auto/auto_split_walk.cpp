#include "trainer/planner/auto/auto_split_walk.h"

#include <algorithm>
#include <cmath>

#include "trainer/planner/auto/auto_search_space.h"

namespace longshore::trainer {
namespace {

using offload::Assignment;

// The depth of a plan that does not fit with the usual one: later transfers occupy less memory at
// once.
constexpr double kLaterDepth = kLookaheadDepths[kUsualDepth - 1];
// The depths that are tried for the best plan.
constexpr double kNeighbouringDepths[] = {kLookaheadDepths[kUsualDepth - 1],
                                          kLookaheadDepths[kUsualDepth + 1]};
// By how many layers the best split is moved either way, one after the other. The sums of these
// reach every number up to 7.
constexpr int kLayerSteps[] = {4, 2, 1};
// The most attempts to make a plan fit with other numbers of layers. The first goes by the missing
// bytes of the original plan, each other one by those that its predecessor still misses.
constexpr int kMaxShifts = 3;

}  // namespace

SplitWalker::SplitWalker(const Config& config, models::Target target,
                         const offload::Hardware& hardware)
    : target_(target),
      hardware_(hardware),
      sets_first_layers_(first_layers_set(config).has_value()),
      sets_layers_ahead_(is_set(config, "prefetch_layers")) {}

WalkedPlan SplitWalker::walk(const LayerSplit& split) const {
  return walked_plan(split_config(split), target_, hardware_);
}

std::vector<WalkedPlan> SplitWalker::walk_each(const std::vector<LayerSplit>& splits) const {
  std::vector<Config> configs;
  for (const LayerSplit& split : splits) configs.push_back(split_config(split));
  return walked_plans(configs, target_, hardware_);
}

WalkedPlan SplitWalker::walk_fitting(LayerSplit& split) const {
  WalkedPlan walked = walk(split);
  if (walked.fits()) return walked;
  LayerSplit late = split;
  late.layers_ahead = kLaterDepth;
  WalkedPlan walked_late = walk(late), shifted = shift_layers(split, std::move(walked));
  if (!is_better(walked_late, shifted)) return shifted;
  split = late;
  return walked_late;
}

// `walked` is the plan of the split and does not fit.
WalkedPlan SplitWalker::shift_layers(LayerSplit& split, WalkedPlan walked) const {
  const std::vector<Assignment>& assignments = split.base->choices->assignments;
  const double more = assignments[split.first].kept_bytes - assignments[split.others].kept_bytes;
  if (!may_shift(split) || more == 0) return walked;
  for (int i = 0; i < kMaxShifts && !walked.fits() && !walked.is_refused(); ++i) {
    // A double, since the number overflows an integer if the assignments hardly differ.
    const double shift =
        std::ceil(static_cast<double>(missing_bytes(walked.room)) / std::abs(more));
    const double layers = split.layers + (more > 0 ? -shift : shift);
    if (layers < 1 || layers > split.base->choices->layers) break;
    split.layers = static_cast<int>(layers);
    walked = walk(split);
  }
  return walked;
}

bool SplitWalker::may_shift(const LayerSplit& split) const {
  return split.first != split.others && !sets_first_layers_;
}

std::vector<WalkedPlan> SplitWalker::walk_around(LayerSplit best, WalkedPlan found) const {
  std::vector<WalkedPlan> all;
  auto try_each = [&](const std::vector<LayerSplit>& splits) {
    std::vector<WalkedPlan> walked = walk_each(splits);
    for (size_t i = 0; i < splits.size(); ++i)
      if (is_better(walked[i], found)) {
        best = splits[i];
        found = walked[i];
      }
    std::ranges::move(walked, std::back_inserter(all));
  };
  for (int step : kLayerSteps) try_each(with_other_layers(best, step));
  const bool has_transfers = found.config.origins.contains("prefetch_layers");
  if (!has_transfers || sets_layers_ahead_) return all;
  std::vector<LayerSplit> nearby;
  for (double layers_ahead : kNeighbouringDepths) {
    nearby.push_back(best);
    nearby.back().layers_ahead = layers_ahead;
  }
  try_each(nearby);
  return all;
}

std::vector<LayerSplit> SplitWalker::with_other_layers(const LayerSplit& split, int step) const {
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
