// One training step: its plans, and running them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batches.h"
#include "models/model.h"
#include "offload/arenas.h"
#include "offload/arguments.h"
#include "offload/executor.h"
#include "offload/policy.h"
#include "offload/scan.h"
#include "offload/timeline.h"
#include "trainer/step/optimizer.h"

namespace longshore::trainer {

struct StepOptions {
  offload::Policy policy;
  std::optional<int> offload_layers;      // as in offload::PassOptions
  std::optional<offload::Policy> others;  // likewise
  offload::Transfers transfers;
  int64_t micro_batches = 1;  // gradient_accumulation_steps
  // None: gradients are the step's result.
  std::optional<OptimizerOptions> optimizer;
};

// The plans of a step, one for each micro-batch. They differ in where they find their batch, so
// that all batches of a step are there before it begins and nothing waits for the host within it.
// With one micro-batch a gradient lives from the layer that makes it to its update; with several,
// all of them stay.
//
// Where clipping makes the update wait for all gradients and something of it has to move, it is
// deferred into the forward pass of the next step's first plan; `flush` updates without a pass.
struct StepPlans {
  std::vector<offload::Plan> plans;
  std::optional<offload::Plan> flush;      // exactly where the update is deferred
  std::vector<offload::LayerPlan> layers;  // of the first plan
  int64_t micro_batches = 1;               // of a step, over all devices

  std::vector<const offload::Plan*> all() const;
};

StepPlans plan_step(const models::Model& model, const offload::ParameterLayout& layout,
                    const StepOptions& options, models::Target target);

// Forward only; no gradients.
offload::Plan plan_forward(const models::Model& model, const offload::ParameterLayout& layout,
                           const std::string& name, const offload::Transfers& transfers,
                           models::Target target,
                           offload::Carries carries = offload::Carries::internal);

// The pinned host argument to read a batch input from, by the input's name.
using RenameInput = std::function<std::string(const std::string& input)>;
// For plans that do not share their batch with others.
void rename_batch(offload::Plan& plan, const models::Model& model, const RenameInput& new_name);

struct StepResult {
  double loss = 0;  // nats a trained token, auxiliary losses aside
  double auxiliary_loss = 0;
  double gradient_norm = 0;  // before clipping
  int64_t total_weights = 0;
};

// The numbers that a step needs beside its batches.
struct StepScalars {
  double learning_rate = 0;
  int64_t number = 1;         // of the update, counted from 1: AdamW's bias correction
  int64_t total_weights = 0;  // trained targets of all devices; 0: of the batches given here
};

class TrainStep {
 public:
  TrainStep(const StepPlans& plans, const models::AdamW& adamw, offload::Backend& backend,
            offload::Arguments& arguments, const offload::Arenas& arenas);

  // One batch for each micro-batch, which all together, and with those of other devices, have at
  // least one trained target. When something fails, parameters and moments may be updated in part:
  // then every later call throws.
  StepResult run(const std::vector<data::Batch>& batches, const StepScalars& scalars,
                 offload::Ledger& ledger);
  // The same, timed: `events` is what each lane did.
  StepResult record(const std::vector<data::Batch>& batches, const StepScalars& scalars,
                    offload::Ledger& ledger, std::vector<offload::Event>& events);
  // Finishes the last step's update. To be called before anything but run() reads parameters or
  // moments, or uses the arenas.
  void flush(offload::Ledger& ledger);

 private:
  void write_update_scalars(const StepScalars& scalars);
  void set_clip_factor(float factor);
  void execute(const std::function<void()>& plans);

  const StepPlans& plans_;
  models::AdamW adamw_;
  offload::Backend& backend_;
  offload::Arguments& arguments_;
  std::vector<std::unique_ptr<offload::Executable>> executables_;
  std::unique_ptr<offload::Executable> flush_;
  std::optional<StepScalars> deferred_;  // of an update that is still to be made
  bool has_failed_ = false;
};

// The pinned host argument that the plan of that micro-batch reads a batch input from.
std::string batch_name(const std::string& input, int64_t micro_batch);

// Puts a batch into the pinned host arguments that the plan of that micro-batch reads.
void write_batch(const data::Batch& batch, offload::Arguments& arguments, int64_t micro_batch = 0);

}  // namespace longshore::trainer
