// The plans of a training step and of a forward pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longshore/models/families/decoder.h"
#include "longshore/models/ir/model.h"
#include "longshore/offload/lowering/scan.h"
#include "longshore/offload/policy/stage_policies.h"
#include "longshore/trainer/step/optimizer.h"

namespace longshore::trainer {

struct StepOptions {
  offload::StagePolicies policy;
  offload::Transfers transfers;
  int64_t micro_batches = 1;  // gradient_accumulation_steps
  // None: gradients are the step's result.
  std::optional<OptimizerOptions> optimizer;
};

// The plans of a step. Micro-batches between the first and the last are alike, so they share a
// plan. With one micro-batch a gradient lives from the layer that makes it to its update; with
// several, all of them stay.
//
// Where clipping makes the update wait for all gradients and something of it has to move, it is
// deferred into the forward pass of the next step's first plan; `flush` updates without a pass.
struct StepPlans {
  // Forward passes before those, each of one micro-batch, that leave log-probabilities of its
  // sequences: of the reference, and of kto's KL estimate also the policy's own. They read the
  // batch that the first pass reads.
  std::optional<offload::Plan> reference, log_probs;
  // What is learnt of pairs of answers, if it is of those.
  std::optional<models::PreferenceObjective> preference;
  // What is learnt of rollouts, if it is of those.
  std::optional<models::PolicyGradientOptions> policy_gradient;
  // Of the only micro-batch; or of the first, of those between if there are any, and of the last.
  std::vector<offload::Plan> plans;
  int64_t micro_batches = 1;
  std::optional<offload::Plan> flush;      // exactly where the update is deferred
  std::vector<offload::LayerPlan> layers;  // of the first plan
  int64_t micro_batches_of_all_devices = 1;
  // Above 0: gradients are clipped to it by the norm of the step before, by a factor that the host
  // gives.
  double previous_norm_threshold = 0;
  std::vector<models::Optimizer> optimizers;  // of which the host gives the rules' scalars

  std::vector<offload::PlanRuns> passes() const;       // of `plans`, in order
  std::vector<offload::PlanRuns> runs() const;         // of a step, in order
  std::vector<const offload::Plan*> in_order() const;  // the same, a plan for each micro-batch
  std::vector<const offload::Plan*> of_step() const;   // each once
  std::vector<const offload::Plan*> all() const;       // these and `flush`
};

StepPlans plan_step(const models::Model& model, const offload::ParameterLayout& layout,
                    const StepOptions& options, models::Target target);

// Forward only; no gradients. With `micro_batches` it reads the first batch of such a step.
offload::Plan plan_forward(const models::Model& model, const offload::ParameterLayout& layout,
                           const std::string& name, const offload::Transfers& transfers,
                           models::Target target,
                           offload::Carries carries = offload::Carries::internal,
                           int64_t micro_batches = 1);

}  // namespace longshore::trainer
