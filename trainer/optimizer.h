// The part of a training plan that follows the gradients: global norm, clipping, AdamW on slabs.
//
// The norm is exact wherever gradients live: each parameter's square sum is taken when its gradient
// is made, and they are added up in one fixed order. Without clipping nothing has to wait for the
// norm, so each slab is updated as soon as its gradients are there; with it, all at the end.
#pragma once

#include <map>

#include "models/ops/adamw.h"
#include "offload/pass_operands.h"

namespace longshore::trainer {

struct OptimizerOptions {
  models::AdamW adamw;            // weight_decay applies to the decayed parts of slabs
  double clipping_threshold = 0;  // 0: no clipping
  uint64_t seed = 0;              // of stochastic rounding
  // Which lane updates: with host_compute, states stay where they are and weights come back.
  offload::Lane lane = offload::Lane::compute;
  // Elements that are updated at a time: what is staged of states in host memory, and the scratch
  // of kernels. A multiple of offload::kScaleBlock.
  int64_t chunk = int64_t{16} << 20;
};

// Scalars the host gives each step, and the norm it gets back (device argument).
inline constexpr const char* kLearningRate = "learning_rate";
inline constexpr const char* kCorrection1 = "correction_1";  // 1 - b1^step
inline constexpr const char* kCorrection2 = "correction_2";
inline constexpr const char* kStep = "step";       // int32, from 1, for stochastic rounding
inline constexpr const char* kNoClip = "no_clip";  // 1, where there is no clipping
inline constexpr const char* kGradientNorm = "grad_norm";

class Update {
 public:
  Update(const OptimizerOptions& options, offload::PassOperands& operands,
         offload::PlanBuilder& builder);

  // What PassOptions calls in the pass that ends a step.
  void gradient_made(const offload::ParameterLayout::Location& location,
                     const offload::Place& place);
  void gradients_made(int slab);

  // After the pass.
  void finish();

 private:
  // Part of a slab that is updated at a time.
  struct Chunk {
    int slab = 0;
    offload::Run run;
    offload::Place place;
    offload::Operand gradient, compute;  // where the lane finds them
  };

  void update_slabs(const std::vector<int>& slabs, const offload::Operand& clip);
  Chunk fetch(int slab, const offload::Run& run);
  void update(const Chunk& chunk, const offload::Operand& clip);
  bool is_away(offload::Copy copy) const;
  offload::Operand reach(const Chunk& chunk, offload::Copy copy);

  const OptimizerOptions& options_;
  const offload::ParameterLayout& layout_;
  offload::PassOperands& operands_;
  offload::PlanBuilder& builder_;
  std::map<std::pair<int, int>, int> index_;  // of a parameter's square sum
  offload::Operand square_sums_;              // f64 [trainable parameters]
  std::vector<int> ready_;                    // slabs, in the order their gradients were made
  int chunks_ = 0;
};

}  // namespace longshore::trainer
