// The update schedule decides when parameters are updated in the passes of a step. Updates that
// move something to or from host memory are spread over the layers that compute meanwhile, so that
// the moves hide behind these.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "longshore/models/ir/model.h"
#include "longshore/trainer/step/gradient_norm.h"
#include "longshore/trainer/step/optimizer.h"

namespace longshore::trainer {

// Whether an update moves something to or from the host or other devices, so that it is worth while
// to hide it.
bool update_moves(const OptimizerOptions& options, const offload::ParameterLayout& layout);

// Whether the update has to wait for the norm of all gradients and is then worth hiding: it is
// made during the next step's first forward pass.
bool defers_update(const OptimizerOptions& options, const offload::ParameterLayout& layout);

// The factor that clips gradients, kept from the step that makes them to the deferred update.
offload::Operand deferred_clip_factor(const OptimizerOptions& options,
                                      offload::PlanBuilder& builder);

// A deferred update: each bucket is updated while the layer before the one that reads it computes.
// What replicas update a part of is gathered before the next layer begins.
class DeferredUpdate {
 public:
  // `ahead` is how many layers ahead of its reader a bucket is updated, at least 1.
  DeferredUpdate(const models::Model& model, int ahead, const OptimizerOptions& options,
                 offload::PassOperands& operands, offload::PlanBuilder& builder);

  // See PassOptions.
  void on_forward_progress(int stage, int layer, double done);

 private:
  Update update_;
  int ahead_;
  std::map<std::pair<int, int>, int> position_;  // by stage and layer, in the order they run
  std::vector<int> due_;                         // chunks that must be updated before each runs
  std::vector<int> buckets_due_;                 // likewise buckets, the first of buckets_
  std::vector<int> buckets_;                     // in the order of their updates
  int updated_ = 0, gathered_ = 0;
};

// What the pass that ends a step does about the update.
class UpdateSchedule {
 public:
  virtual ~UpdateSchedule() = default;

  // See PassOptions.
  virtual void on_bucket_gradients(int bucket) = 0;
  virtual void on_backward_progress(double /*done*/) {}
  // After the pass: writes the gradients' norm, and makes the updates that waited for it.
  virtual void finish(GradientNorm& norm) = 0;
};

std::unique_ptr<UpdateSchedule> update_schedule(const OptimizerOptions& options,
                                                offload::PassOperands& operands,
                                                offload::PlanBuilder& builder);

}  // namespace longshore::trainer
