// TrainingPlans holds everything a run will execute, planned before anything is allocated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longshore/models/families/decoder.h"
#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/step/decoding.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

struct TrainingPlans {
  models::Model model;
  offload::ParameterLayout layout;
  StepOptions options;
  StepPlans step;
  std::optional<offload::ParameterLayout> reference;  // of step.reference
  // Log-probabilities that are kept from before the first step, where a reference is precomputed.
  std::optional<offload::Plan> precompute;
  std::optional<offload::Plan> evaluate;  // where there is validation text
  std::optional<offload::Plan> choices;   // log-probabilities, where questions are asked
  std::optional<DecodingPlans> sample;    // where text is sampled at the end
  // Whether the state is copied, to write checkpoints while steps run; of replicas the first does.
  bool has_snapshot = false;
  // Whether this process writes checkpoints, of all processes' state.
  bool writes_checkpoints = false;
  // Of a model that reads images: the batches that data has ready and those of the step, in
  // ordinary host memory. Those of text are small, and among kProcessBytes (planner/room.h).
  int64_t read_batch_bytes = 0;

  std::vector<const offload::Plan*> all() const;
};

// As device number `rank` of the config's mesh has it; parameter_layers_on_device: auto counts as
// 0.
offload::LayoutOptions layout_options(const Config& config, int64_t rank = 0);
// Throws ConfigError when the remat policy does not suit the model.
StepOptions step_options(const RunSpec& spec, const models::Model& model);

// Whether a policy that would compute values again keeps them all, since that takes less device
// memory: a policy never takes more than `none`. And how reports say so.
bool keeps_all_in_less(const StepOptions& options);
inline constexpr const char* kKeepsAllInLess =
    ", which keeps everything here: to compute it again would take more device memory";

// Those of device number `rank`. Throws ConfigError as step_options() does.
TrainingPlans plan_training(const RunSpec& spec, int64_t rank = 0);

// The memory that a run takes: of its plans, of saving, of batches of images, and of the snapshot
// if there is one.
MemoryByKind analyze(const TrainingPlans& plans);

// "attention: flash attention (ATen)", for each op that has several kernels.
std::vector<std::string> kernel_paths(const models::Model& model, models::Target target);

// The run directory's plan.txt.
std::string text(const TrainingPlans& plans);

}  // namespace longshore::trainer
