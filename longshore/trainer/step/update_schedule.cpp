#include "longshore/trainer/step/update_schedule.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace longshore::trainer {

using offload::Category;
using offload::Lane;
using offload::MemoryKind;
using offload::Operand;
using offload::ParameterLayout;
using offload::PassOperands;
using offload::PlanBuilder;

namespace {

const models::Type kScalar{};

int share(double done, int chunks) { return static_cast<int>(std::lround(done * chunks)); }

// The factor of gradients whose norm nothing waits for.
Operand given_clip_factor(const OptimizerOptions& options, PassOperands& operands) {
  return options.kind() == MemoryKind::device ? operands.scalar(kGivenClipFactor)
                                              : operands.host_scalar(kGivenClipFactor);
}

// Where no update waits for the norm.
class UpdateWhenMade : public UpdateSchedule {
 public:
  UpdateWhenMade(const OptimizerOptions& options, PassOperands& operands, PlanBuilder& builder)
      : update_(options, operands, builder, given_clip_factor(options, operands)) {}

  void on_bucket_gradients(int bucket) override {
    update_.add(bucket);
    update_.finish();
  }
  void finish(GradientNorm& norm) override { norm.finish(0); }

 private:
  Update update_;
};

// As UpdateWhenMade, but during the backward pass of the layer that follows the one which made the
// bucket's gradients final.
class UpdateAfterNextLayer : public UpdateSchedule {
 public:
  UpdateAfterNextLayer(const OptimizerOptions& options, PassOperands& operands,
                       PlanBuilder& builder)
      : update_(options, operands, builder, given_clip_factor(options, operands)) {}

  void on_bucket_gradients(int bucket) override {
    // Several buckets may become final after the same layer.
    if (has_progressed_) finish_buckets();
    chunks_ += update_.add(bucket);
    buckets_.push_back(bucket);
  }
  void on_backward_progress(double done) override {
    has_progressed_ = true;
    int target = share(done, chunks_);
    update_.run(std::max(0, target - updated_));
    updated_ = std::max(updated_, target);
  }
  void finish(GradientNorm& norm) override {
    finish_buckets();
    norm.finish(0);
  }

 private:
  void finish_buckets() {
    update_.finish();
    for (int bucket : buckets_) update_.gather(bucket);
    buckets_.clear();
    chunks_ = updated_ = 0;
    has_progressed_ = false;
  }

  Update update_;
  // Of the buckets at hand:
  std::vector<int> buckets_;
  int chunks_ = 0, updated_ = 0;
  bool has_progressed_ = false;
};

// Clips, and updates buckets in the order their gradients were made.
class UpdateAfterPass : public UpdateSchedule {
 public:
  UpdateAfterPass(const OptimizerOptions& options, PassOperands& operands, PlanBuilder& builder)
      : options_(options), operands_(operands), builder_(builder) {}

  void on_bucket_gradients(int bucket) override { made_.push_back(bucket); }
  void finish(GradientNorm& norm) override {
    Operand factor = builder_.temporary(kClipFactor, kScalar, MemoryKind::device, Category::batch);
    norm.finish(options_.clipping_threshold, factor);
    Update update(options_, operands_, builder_, factor);
    for (int bucket : made_) update.add(bucket);
    update.finish();
  }

 private:
  const OptimizerOptions& options_;
  PassOperands& operands_;
  PlanBuilder& builder_;
  std::vector<int> made_;  // buckets
};

// Leaves the clip factor for the next step, whose forward pass updates.
class UpdateInNextStep : public UpdateSchedule {
 public:
  UpdateInNextStep(const OptimizerOptions& options, PlanBuilder& builder)
      : options_(options), builder_(builder) {}

  void on_bucket_gradients(int /*bucket*/) override {}
  void finish(GradientNorm& norm) override {
    norm.finish(options_.clipping_threshold, deferred_clip_factor(options_, builder_));
  }

 private:
  const OptimizerOptions& options_;
  PlanBuilder& builder_;
};

}  // namespace

bool update_moves(const OptimizerOptions& options, const ParameterLayout& layout) {
  return options.lane == Lane::host_compute || layout.any_on_host() ||
         layout.shard_optimizer_over_data;
}

bool defers_update(const OptimizerOptions& options, const ParameterLayout& layout) {
  return options.waits_for_norm() && update_moves(options, layout);
}

Operand deferred_clip_factor(const OptimizerOptions& options, PlanBuilder& builder) {
  return builder.argument(kClipFactor, kScalar, options.kind(), Category::optimizer);
}

DeferredUpdate::DeferredUpdate(const models::Model& model, int ahead,
                               const OptimizerOptions& options, PassOperands& operands,
                               PlanBuilder& builder)
    : update_(options, operands, builder, deferred_clip_factor(options, builder)), ahead_(ahead) {
  const ParameterLayout& layout = operands.layout();
  std::set<int> seen;
  int chunks = 0;
  for (int stage = 0; stage < std::ssize(model.stages); ++stage) {
    const models::Stage& s = model.stages[stage];
    for (int layer = 0; layer < std::ssize(s.layers); ++layer) {
      const models::Program& program = s.program(layer);
      for (models::ValueId id : program.inputs_from(models::Source::weight)) {
        int bucket = layout.by_name.at(weight_name(s, layer, program[id])).bucket;
        bool trains = layout.buckets[bucket].trainable == models::Trainable::yes;
        if (!trains || !seen.insert(bucket).second) continue;
        chunks += update_.add(bucket);
        buckets_.push_back(bucket);
      }
      position_[{stage, layer}] = static_cast<int>(due_.size());
      due_.push_back(chunks);
      buckets_due_.push_back(static_cast<int>(buckets_.size()));
    }
  }
}

void DeferredUpdate::on_forward_progress(int stage, int layer, double done) {
  auto at = [&](const std::vector<int>& due, int position) {
    return due[std::min<size_t>(position, due.size() - 1)];
  };
  const int position = position_.at({stage, layer}) + ahead_;
  const int now = at(due_, position - 1);
  const int target = now + share(done, at(due_, position) - now);
  update_.run(std::max(0, target - updated_));
  updated_ = std::max(updated_, target);
  // Devices have different numbers of chunks, but all begin a layer with the same buckets updated.
  for (const int buckets = at(buckets_due_, position - 1); gathered_ < buckets; ++gathered_)
    update_.gather(buckets_[gathered_]);
}

std::unique_ptr<UpdateSchedule> update_schedule(const OptimizerOptions& options,
                                                PassOperands& operands, PlanBuilder& builder) {
  if (defers_update(options, operands.layout()))
    return std::make_unique<UpdateInNextStep>(options, builder);
  if (options.waits_for_norm())
    return std::make_unique<UpdateAfterPass>(options, operands, builder);
  if (update_moves(options, operands.layout()))
    return std::make_unique<UpdateAfterNextLayer>(options, operands, builder);
  return std::make_unique<UpdateWhenMade>(options, operands, builder);
}

}  // namespace longshore::trainer
