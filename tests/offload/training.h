// A few training steps on a small model, and everything they leave behind.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/backends/communicator.h"
#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/step/step.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/toy_models.h"

namespace longshore::offload {

struct TrainingOptions {
  models::Model model = models::decoder(tiny_llama());
  std::string policy = "none";
  std::map<std::string, Action> custom;
  std::optional<Policy> unnamed_policy;         // in the place of these, for any labels
  std::optional<Policy> others;                 // as in StagePolicy
  std::map<std::string, StagePolicy> by_stage;  // in the place of these, for scans of that name
  int64_t micro_batches = 1;
  int steps = 3;
  double learning_rate = 1e-2;
  double clipping_threshold = 0.5;  // lower than the tiny models' norms
  trainer::ClippingNorm clipping_norm = trainer::ClippingNorm::global_norm;
  double weight_decay = 0.1;
  std::vector<models::Optimizer> optimizers;  // AdamW with this decay if there is none
  LayoutOptions layout{.optimizers = adamw_states()};
  std::optional<int> offload_layers;
  Transfers transfers{.smallest_bytes = 4096};
  Lane update_lane = Lane::compute;
  int64_t update_chunk = 1024;
  bool flushes = false;        // after every step, not only after the last
  Backend* backend = nullptr;  // the CPU's own otherwise
  // Micro-batches are dealt out to devices in turn: this one sees those of its rank.
  std::shared_ptr<Communicator> communicator;
};

struct Training {
  trainer::StepPlans plans;
  std::vector<trainer::StepResult> results;             // of each step
  std::map<std::string, std::vector<std::byte>> state;  // every copy of every bucket, by name
  Ledger ledger;
  std::map<MemoryKind, int64_t> allocated_bytes;  // what the backend was asked for
};

inline constexpr uint64_t kWeightSeed = 1, kDataSeed = 2;

// Synthetic data and weights, the same for all policies.
Training train(const TrainingOptions& options);
// The same on every device of a mesh, in threads; by rank.
std::vector<Training> train_on(DeviceMesh mesh, const TrainingOptions& options);

// What is wrong with plans by the checks of plan_checks.h; "" for nothing.
std::string first_fault(const trainer::StepPlans& plans);

// One pass over micro-batches of the model's size, with gradients and without an update.
struct PassResult {
  double loss = 0;                                      // sum of token losses
  double auxiliary_loss = 0;                            // sum over micro-batches
  std::map<std::string, std::vector<float>> gradients;  // of every trainable parameter
};

struct PassInputs {
  models::Model model;
  std::string policy = "none";
  models::Target target = models::Target::cpu;
  double loss_gradient = 1, auxiliary_loss_gradient = 1;
};

PassResult run_pass(const PassInputs& inputs, const std::vector<data::Batch>& micro_batches);

// The tensors that initialize() gives: float32 before any rounding.
std::map<std::string, std::vector<float>> initial_weights(const ParameterLayout& layout);

// Adds what a toy's batch has beside tokens: patches and hints, the same for every step.
void write_toy_inputs(const ToySizes& sizes, Arguments& arguments, int64_t micro_batches = 1);

// The first thing that is not the same to the bit: "step 2, loss: 4.1 and 4.2"; "" for none.
std::string differences(const Training& a, const Training& b);

}  // namespace longshore::offload
