// LossSums adds up the losses that layers and micro-batches make, and the loads of experts, in
// device arguments.
#pragma once

#include <set>

#include "longshore/offload/lowering/pass_options.h"
#include "longshore/offload/lowering/plan_builder.h"

namespace longshore::offload {

// The arguments that hold the sums of a step, scalars of float32.
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kSftLoss = "sft_loss";
inline constexpr const char* kAuxiliaryLoss = "auxiliary_loss";
inline constexpr const char* kExpertLoad = "expert_load";

// Whether outputs of that role are added up so.
bool is_summed(models::OutputRole role);

class LossSums {
 public:
  // Of a pass of that micro-batch.
  LossSums(PlanBuilder& builder, MicroBatch micro_batch)
      : builder_(builder), micro_batch_(micro_batch) {}

  // Lets the program make the loss where its sum lies, if it is the first of the step. Later losses
  // are added to the first, which therefore lies elsewhere if anything else reads it.
  void bind(const models::Program& program, models::ValueId value, models::OutputRole role,
            PlanBuilder::Bindings& bindings);
  // Adds what the program has made, where it is not there already.
  void add(models::ValueId value, models::OutputRole role, const PlanBuilder::Bindings& bindings,
           const Scope& scope);

 private:
  Operand argument(models::OutputRole role);
  // Whether the step has no loss of that role yet; from then on it has.
  bool begins(models::OutputRole role);

  PlanBuilder& builder_;
  MicroBatch micro_batch_;
  std::set<models::OutputRole> begun_;
};

}  // namespace longshore::offload
