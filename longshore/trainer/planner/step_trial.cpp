#include "longshore/trainer/planner/step_trial.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "longshore/trainer/step/estimate.h"
#include "longshore/trainer/step/prefetch.h"
#include "longshore/trainer/step/short_step.h"

namespace longshore::trainer {
namespace {

using offload::Hardware;

// The numbers of layers of the two short models that stand for a long one. With fewer than a dozen,
// the first and last layers, which differ from the others, make up too much of a model: with five,
// some changes seemed to gain that lose on the whole model.
constexpr int64_t kFewLayers = 12, kMoreLayers = 24;

bool can_be_short(const models::Model& model) {
  return std::ranges::all_of(std::array{kFewLayers, kMoreLayers}, [&](int64_t layers) {
    const models::Model few = models::truncated(model, static_cast<int>(layers));
    return std::ssize(main_stage(few).layers) == layers;
  });
}

}  // namespace

StepTimes StepTrial::times(const Hardware& hardware) const {
  StepTimes sum;
  for (const auto& [weight, step] : steps_) {
    const Estimate simulated = estimate(step, hardware);
    sum.step += weight * simulated.step_seconds;
    sum.exposed += weight * (simulated.phases.exposed_transfer + simulated.phases.exposed_host);
    sum.recompute += weight * simulated.phases.recompute;
  }
  return sum;
}

// The shorter steps from whose times that of the model's step follows. Only the first and last few
// layers take times of their own; all between them take the same. So the time is linear in the
// number of layers. A step that is no longer than the two short ones together, or whose layers
// cannot do with so few or live in different places, is simulated itself.
std::vector<StepTrials::WeightedCount> StepTrials::steps_to_simulate(const models::Model& model,
                                                                     const Config& config) {
  const auto count = std::ssize(main_stage(model).layers);
  if (count <= kFewLayers + kMoreLayers || config.parameter_layers_on_device > 0 ||
      !can_be_short(model))
    return {{count, 1}};
  const double beyond =
      static_cast<double>(count - kFewLayers) / static_cast<double>(kMoreLayers - kFewLayers);
  return {{kFewLayers, 1 - beyond}, {kMoreLayers, beyond}};
}

StepTrials::StepTrials(const RunSpec& spec, const TrainingPlans& plans)
    : spec_(spec), plans_(plans), steps_(steps_to_simulate(plans.model, spec.config())) {}

StepTrial StepTrials::plan(StepOptions options, const offload::LayoutOptions& layout) const {
  options.transfers.prefetch_layers = prefetch_layers(options, layout);
  StepTrial::WeightedSteps steps;
  for (const WeightedCount& layers : steps_)
    steps.emplace_back(layers.weight, plan_short_step(plans_.model, static_cast<int>(layers.count),
                                                      layout, options, spec_.hardware()->target));
  return StepTrial(std::move(steps));
}

MemoryByKind StepTrials::memory(StepOptions options) const {
  options.transfers.prefetch_layers = prefetch_layers(options, layout_options(spec_.config()));
  TrainingPlans changed{.model = plans_.model,
                        .layout = plans_.layout,
                        .options = std::move(options),
                        .step = {},
                        .precompute = plans_.precompute,
                        .evaluate = plans_.evaluate,
                        .choices = plans_.choices,
                        .sample = plans_.sample,
                        .has_snapshot = plans_.has_snapshot,
                        .writes_checkpoints = plans_.writes_checkpoints};
  changed.step =
      plan_step(changed.model, changed.layout, changed.options, spec_.hardware()->target);
  changed.step.reference = plans_.step.reference;
  changed.step.log_probs = plans_.step.log_probs;
  return analyze(changed);
}

double StepTrials::prefetch_layers(const StepOptions& options,
                                   const offload::LayoutOptions& layout) const {
  if (spec_.config().prefetch_layers) return *spec_.config().prefetch_layers;
  return choose_prefetch_layers(plans_.model, layout, options, spec_.hardware()->target,
                                *spec_.hardware());
}

}  // namespace longshore::trainer
