// A TrainStep runs training steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "longshore/data/rows/batches.h"
#include "longshore/offload/backends/timeline.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/trainer/step/step_inputs.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

struct StepResult {
  double loss = 0;      // nats a trained token or the mean of pairs, auxiliary losses aside
  double sft_loss = 0;  // weighted, nats a token of chosen answers: a part of the loss
  std::optional<Rewards> rewards;
  std::optional<PolicyFigures> policy;
  double auxiliary_loss = 0;
  double expert_load = 0;    // of the busiest expert over the mean; the mean over layers
  double gradient_norm = 0;  // before clipping
  int64_t total_weights = 0;
};

// The numbers that a step needs besides its batches.
struct StepScalars {
  double learning_rate = 0;
  int64_t number = 1;  // of the update, counted from 1
  // Trained targets, pairs or answers of all devices, and targets of chosen answers; 0: of the
  // batches given here.
  int64_t total_weights = 0, chosen_targets = 0;
};

class TrainStep {
 public:
  TrainStep(const StepPlans& plans, offload::Backend& backend, offload::Arguments& arguments,
            const offload::Arenas& arenas);

  // One batch for each micro-batch, which all together, and with those of other devices, have at
  // least one trained target. When something fails, parameters and what optimizers keep may be
  // updated in part: then every later call throws.
  // `mismatched` is as StepInputs takes it.
  StepResult run(const std::vector<data::Batch>& batches, const StepScalars& scalars,
                 offload::Ledger& ledger, const std::vector<data::Batch>& mismatched = {});
  // The same, timed: `events` is what each lane did.
  StepResult record(const std::vector<data::Batch>& batches, const StepScalars& scalars,
                    offload::Ledger& ledger, std::vector<offload::Event>& events,
                    const std::vector<data::Batch>& mismatched = {});
  void set_sum_over_devices(SumOverDevices sum) { inputs_.set_sum_over_devices(std::move(sum)); }
  void set_reference_values(const ReferenceValues& values) { inputs_.set_reference_values(values); }
  // The norm that the next step's gradients are clipped by, where that is the last step's: nothing
  // before the first step, which is not clipped, and where clipping is not by a norm before. A run
  // that goes on is given what this was when it was saved.
  const std::optional<double>& clipping_norm() const { return clipping_norm_; }
  void set_clipping_norm(const std::optional<double>& norm) { clipping_norm_ = norm; }

  // Finishes the last step's update. To be called before anything but run() reads parameters or
  // what optimizers keep, or uses the arenas.
  void flush(offload::Ledger& ledger);
  // Whether an update waits for the next step, and what it takes stays in the arenas.
  bool is_deferred() const { return deferred_.has_value(); }

 private:
  void write_update_scalars(const StepScalars& scalars);
  void set_clip_factor(float factor);
  void execute(const std::function<void()>& plans);

  const StepPlans& plans_;
  offload::Backend& backend_;
  offload::Arguments& arguments_;
  StepInputs inputs_;
  std::vector<std::unique_ptr<offload::Executable>> executables_;
  std::unique_ptr<offload::Executable> flush_;
  std::optional<StepScalars> deferred_;  // of an update that is still to be made
  std::optional<double> clipping_norm_;
  bool has_failed_ = false;
};

}  // namespace longshore::trainer
