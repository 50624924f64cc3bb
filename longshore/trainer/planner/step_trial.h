// The times and memory of a config's training step with other options than its plan has.
#pragma once

#include <utility>
#include <vector>

#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {

// Seconds of a step.
struct StepTimes {
  double step = 0;
  double exposed = 0;    // of it: kernels wait for transfers or for updates on the host
  double recompute = 0;  // of it: values are computed again
};

// A step that was planned with changed options. Planning and simulating a step of a long model
// takes seconds, so a trial consists of a few short steps from whose times that of the long one
// follows.
class StepTrial {
 public:
  // Short steps, each with the factor by which its times enter those of the whole step.
  using WeightedSteps = std::vector<std::pair<double, StepPlans>>;

  explicit StepTrial(WeightedSteps steps) : steps_(std::move(steps)) {}

  StepTimes times(const offload::Hardware& hardware) const;

 private:
  WeightedSteps steps_;
};

// Plans trials of a run's steps. The arguments have to outlive it.
class StepTrials {
 public:
  // `plans` are those of the run, which has a profile.
  StepTrials(const RunSpec& spec, const TrainingPlans& plans);

  // Transfers start as far ahead as they would with a config that has these options.
  StepTrial plan(StepOptions options, const offload::LayoutOptions& layout) const;

  // The memory that the config's run would take with these options.
  MemoryByKind memory(StepOptions options) const;

 private:
  double prefetch_layers(const StepOptions& options, const offload::LayoutOptions& layout) const;

  // A step with `count` layers, and the factor by which its time enters a sum.
  struct WeightedCount {
    int64_t count;
    double weight;
  };
  static std::vector<WeightedCount> steps_to_simulate(const models::Model& model,
                                                      const Config& config);

  const RunSpec& spec_;
  const TrainingPlans& plans_;
  const std::vector<WeightedCount> steps_;  // of a trial
};

}  // namespace longshore::trainer
