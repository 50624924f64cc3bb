#include "longshore/trainer/step/step_plans.h"

#include <cmath>
#include <memory>
#include <utility>

#include "longshore/trainer/step/gradient_norm.h"
#include "longshore/trainer/step/update_schedule.h"

namespace longshore::trainer {
namespace {

using offload::Category;
using offload::kAuxiliaryLoss;
using offload::kExpertLoad;
using offload::Lane;
using offload::MemoryKind;
using offload::Operand;
using offload::Plan;
using offload::PlanBuilder;

const models::Type kScalar{};
bool has_output(const models::Model& model, models::OutputRole role) {
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (const models::Output& output : program.outputs)
        if (output.role == role) return true;
  return false;
}

Operand device_scalar(PlanBuilder& builder, const char* name) {
  return builder.argument(name, kScalar, MemoryKind::device, Category::batch);
}

// Results go to the host at the end of the last micro-batch.
void return_scalar(PlanBuilder& builder, const char* name) {
  Operand device = device_scalar(builder, name);
  Operand host =
      builder.argument(offload::host_name(name), kScalar, MemoryKind::pinned_host, Category::batch);
  builder.move(Lane::device_to_host, device, host, {.stage = "results"});
}

// Every device has those of its own batches.
void return_loss(PlanBuilder& builder, const char* name, const offload::DeviceMesh& mesh) {
  for (offload::Axis axis : {offload::Axis::fsdp, offload::Axis::data})
    if (models::Collective among = along(mesh, axis); among.ranks > 1) {
      Operand loss = device_scalar(builder, name);
      builder.collective(models::all_reduce_op, among, loss, loss, {.stage = "results"});
    }
  return_scalar(builder, name);
}

// What all plans of a step have in common.
class StepPlanner {
 public:
  StepPlanner(const models::Model& model, const offload::ParameterLayout& layout,
              const StepOptions& options, models::Target target)
      : model_(model), layout_(layout), options_(options), target_(target) {}

  bool defers() const { return options_.optimizer && defers_update(*options_.optimizer, layout_); }

  struct MicroBatchPlan {
    Plan plan;
    std::vector<offload::LayerPlan> layers;
  };

  // Of a micro-batch of that kind, which is number `first` of the step or follows it.
  MicroBatchPlan plan(const char* name, offload::MicroBatch micro_batch, int64_t first) const;
  // `step` is what leaves the gradients.
  Plan flush(const Plan& step) const;

 private:
  offload::GradientOwner gradient_owner() const {
    // Where replicas update a part each, what they add up is not what they update with.
    const bool adds_up =
        options_.micro_batches > 1 && (!layout_.shard_optimizer_over_data || defers());
    if (adds_up || !options_.optimizer) return offload::GradientOwner::caller;
    return defers() ? offload::GradientOwner::next_run : offload::GradientOwner::plan;
  }
  // What is updated must be at home before it is fetched, and gathered, each ahead of use.
  int prefetch_layers() const {
    int ways = layout_.any_on_host(&offload::Homes::parameters) + layout_.is_sharded() +
               layout_.shard_optimizer_over_data;
    return 1 + ways * static_cast<int>(std::ceil(options_.transfers.prefetch_layers));
  }
  bool is_alone() const { return layout_.mesh.devices() == 1; }
  void return_losses(PlanBuilder& builder) const;

  const models::Model& model_;
  const offload::ParameterLayout& layout_;
  const StepOptions& options_;
  models::Target target_;
};

void StepPlanner::return_losses(PlanBuilder& builder) const {
  return_loss(builder, offload::kLoss, layout_.mesh);
  for (const auto& [role, name] : {std::pair{models::OutputRole::sft_loss, offload::kSftLoss},
                                   {models::OutputRole::auxiliary_loss, kAuxiliaryLoss},
                                   {models::OutputRole::expert_load, kExpertLoad}})
    if (has_output(model_, role)) return_loss(builder, name, layout_.mesh);
}

StepPlanner::MicroBatchPlan StepPlanner::plan(const char* name, offload::MicroBatch micro_batch,
                                              int64_t first) const {
  PlanBuilder builder(name, target_);
  offload::PassOperands operands(layout_, builder, gradient_owner(), options_.transfers, nullptr,
                                 {.count = options_.micro_batches, .first = first});
  offload::PassOptions pass{.policy = options_.policy, .micro_batch = micro_batch};
  std::optional<DeferredUpdate> deferred;
  if (defers() && begins_step(micro_batch)) {
    deferred.emplace(model_, prefetch_layers(), *options_.optimizer, operands, builder);
    pass.on_forward_progress = [&](int stage, int layer, double done) {
      deferred->on_forward_progress(stage, layer, done);
    };
  }
  std::optional<GradientNorm> norm;
  std::unique_ptr<UpdateSchedule> updates;
  if (ends_step(micro_batch) && options_.optimizer) {
    norm.emplace(operands, builder);
    updates = update_schedule(*options_.optimizer, operands, builder);
    if (is_alone())
      pass.on_parameter_gradient = [&](const auto& location, const auto& scope) {
        norm->on_parameter_gradient(location, scope);
      };
    pass.on_bucket_gradients = [&](int bucket) {
      if (!is_alone()) norm->on_bucket_gradients(bucket);
      updates->on_bucket_gradients(bucket);
    };
    pass.on_backward_progress = [&](int, int, double done) { updates->on_backward_progress(done); };
  }
  offload::Scan scan(model_, operands, builder);
  scan.train(pass);
  if (updates) {
    updates->finish(*norm);
    return_scalar(builder, kGradientNorm);
  }
  if (ends_step(micro_batch)) return_losses(builder);
  return {builder.finish(options_.transfers), scan.layer_plans()};
}

Plan StepPlanner::flush(const Plan& step) const {
  PlanBuilder builder("update", target_);
  offload::PassOperands operands(layout_, builder, gradient_owner(), options_.transfers, &step);
  Update update(*options_.optimizer, operands, builder,
                deferred_clip_factor(*options_.optimizer, builder));
  for (int bucket = 0; bucket < std::ssize(layout_.buckets); ++bucket)
    if (layout_.buckets[bucket].trainable == models::Trainable::yes) update.add(bucket);
  update.finish();
  for (int bucket = 0; bucket < std::ssize(layout_.buckets); ++bucket)
    if (layout_.buckets[bucket].trainable == models::Trainable::yes) update.gather(bucket);
  return builder.finish(options_.transfers);
}

}  // namespace

std::vector<offload::PlanRuns> StepPlans::passes() const {
  std::vector<offload::PlanRuns> runs;
  for (const Plan& plan : plans) runs.push_back({.plan = &plan});
  if (plans.size() == 3) runs[1].times = micro_batches - 2;
  return runs;
}

std::vector<offload::PlanRuns> StepPlans::runs() const {
  std::vector<offload::PlanRuns> runs;
  // A KL estimate is of other batches, as many.
  if (reference)
    runs.push_back({.plan = &*reference, .times = micro_batches * (log_probs ? 2 : 1)});
  if (log_probs) runs.push_back({.plan = &*log_probs, .times = micro_batches});
  const std::vector<offload::PlanRuns> of_passes = passes();
  runs.insert(runs.end(), of_passes.begin(), of_passes.end());
  return runs;
}

std::vector<const Plan*> StepPlans::in_order() const {
  std::vector<const Plan*> list;
  for (const offload::PlanRuns& one : runs())
    list.insert(list.end(), static_cast<size_t>(one.times), one.plan);
  return list;
}

std::vector<const Plan*> StepPlans::of_step() const {
  std::vector<const Plan*> list;
  for (const offload::PlanRuns& one : runs()) list.push_back(one.plan);
  return list;
}

std::vector<const Plan*> StepPlans::all() const {
  std::vector<const Plan*> list = of_step();
  if (flush) list.push_back(&*flush);
  return list;
}

StepPlans plan_step(const models::Model& model, const offload::ParameterLayout& layout,
                    const StepOptions& options, models::Target target) {
  using offload::MicroBatch;
  StepPlanner planner(model, layout, options, target);
  StepPlans result;
  const int64_t count = options.micro_batches;
  result.micro_batches = count;
  result.micro_batches_of_all_devices = count * layout.mesh.devices();
  if (options.optimizer) result.optimizers = options.optimizer->optimizers;
  if (options.optimizer && !options.optimizer->waits_for_norm())
    result.previous_norm_threshold = options.optimizer->clipping_threshold;
  auto add_plan = [&](const char* name, MicroBatch micro_batch, int64_t first) {
    auto [plan, layers] = planner.plan(name, micro_batch, first);
    result.plans.push_back(std::move(plan));
    if (begins_step(micro_batch)) result.layers = std::move(layers);
  };
  if (count == 1) {
    add_plan("step", MicroBatch::only, 0);
  } else {
    add_plan("first micro-batch", MicroBatch::first, 0);
    if (count > 2) add_plan("further micro-batch", MicroBatch::further, 1);
    add_plan("last micro-batch", MicroBatch::last, count - 1);
  }
  if (planner.defers()) result.flush = planner.flush(result.plans[0]);
  return result;
}

Plan plan_forward(const models::Model& model, const offload::ParameterLayout& layout,
                  const std::string& name, const offload::Transfers& transfers,
                  models::Target target, offload::Carries carries, int64_t micro_batches) {
  PlanBuilder builder(name, target);
  offload::PassOperands operands(layout, builder, offload::GradientOwner::plan, transfers, nullptr,
                                 {.count = micro_batches});
  offload::Scan scan(model, operands, builder);
  scan.forward(carries);
  for (const auto& [role, name] : {std::pair{models::OutputRole::loss, offload::kLoss},
                                   {models::OutputRole::sft_loss, offload::kSftLoss}})
    if (has_output(model, role)) return_loss(builder, name, layout.mesh);
  return builder.finish(transfers);
}

}  // namespace longshore::trainer
