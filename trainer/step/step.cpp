#include "trainer/step/step.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "models/ops/linear_cross_entropy.h"
#include "trainer/step/gradient_norm.h"
#include "trainer/step/paced_update.h"

namespace longshore::trainer {
namespace {

using offload::Category;
using offload::Lane;
using offload::MemoryKind;
using offload::Operand;
using offload::Plan;
using offload::PlanBuilder;

static_assert(data::kIgnoredTarget == models::kIgnoredTarget);

const models::Type kScalar{};
constexpr const char* kNoClip = "no_clip";  // 1, where there is no clipping

bool has_output(const models::Model& model, models::OutputRole role) {
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (const models::Output& output : program.outputs)
        if (output.role == role) return true;
  return false;
}

Operand device_scalar(PlanBuilder& builder, const char* name) {
  return {builder.argument(name, kScalar.bytes(), MemoryKind::device, Category::batch), 0, kScalar};
}

// Results go to the host at the end of the last micro-batch.
void return_scalar(PlanBuilder& builder, const char* name) {
  Operand device = device_scalar(builder, name);
  Operand host{builder.argument(offload::host_name(name), kScalar.bytes(), MemoryKind::pinned_host,
                                Category::batch),
               0, kScalar};
  builder.move(Lane::device_to_host, device, host, {.stage = "results"});
}

// Every device has those of its own batches.
void return_loss(PlanBuilder& builder, const char* name, const offload::DeviceMesh& mesh) {
  for (offload::Axis axis : {offload::Axis::fsdp, offload::Axis::data})
    if (offload::Collective among = along(mesh, axis); among.ranks > 1) {
      Operand loss = device_scalar(builder, name);
      builder.collective(offload::all_reduce_op, among, loss, loss, {.stage = "results"});
    }
  return_scalar(builder, name);
}

float read_scalar(const offload::Arguments& arguments, const char* name) {
  float value;
  arguments.read(offload::host_name(name), &value, sizeof value);
  return value;
}

// Of an input that this model may not have.
void write_scalar(offload::Arguments& arguments, const std::string& name, double value) {
  float narrow = static_cast<float>(value);
  if (arguments.has(offload::host_name(name)))
    arguments.write(offload::host_name(name), &narrow, sizeof narrow);
}

}  // namespace

void rename_batch(Plan& plan, const models::Model& model, const RenameInput& new_name) {
  std::map<std::string, std::string> names;
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (models::ValueId id : program.inputs_from(models::Source::batch))
        names[offload::host_name(program[id].name)] = new_name(program[id].name);
  for (offload::Buffer& buffer : plan.buffers)
    if (auto name = names.find(buffer.name);
        name != names.end() && buffer.owner == offload::Owner::caller)
      buffer.name = name->second;
}

std::string batch_name(const std::string& input, int64_t micro_batch) {
  return offload::host_name(input) + (micro_batch == 0 ? "" : "." + std::to_string(micro_batch));
}

namespace {

// What all plans of a step have in common.
class StepPlanner {
 public:
  StepPlanner(const models::Model& model, const offload::ParameterLayout& layout,
              const StepOptions& options, models::Target target)
      : model_(model), layout_(layout), options_(options), target_(target) {}

  // Whether an update moves something, so that it is worth while to hide it.
  bool update_moves() const {
    return options_.optimizer->lane == Lane::host_compute || layout_.homes.any_on_host();
  }

  bool defers() const {
    return options_.optimizer && options_.optimizer->clipping_threshold > 0 && update_moves();
  }

  Plan plan(const char* name, offload::MicroBatch micro_batch, bool is_last,
            std::vector<offload::LayerPlan>& layers) const;
  // `step` is what leaves the gradients.
  Plan flush(const Plan& step) const;

 private:
  offload::GradientOwner gradient_owner() const {
    if (options_.micro_batches > 1 || !options_.optimizer) return offload::GradientOwner::caller;
    return defers() ? offload::GradientOwner::next_run : offload::GradientOwner::plan;
  }
  // What is updated must be at home before it is fetched, and gathered, each ahead of use.
  int layers_ahead() const {
    int ways = (layout_.homes.parameters != MemoryKind::device) + layout_.is_sharded();
    return 1 + ways * static_cast<int>(std::ceil(options_.transfers.layers_ahead));
  }
  bool is_alone() const { return layout_.mesh.devices() == 1; }
  Operand deferred_factor(PlanBuilder& builder) const {
    return {builder.argument(kClipFactor, kScalar.bytes(), options_.optimizer->kind(),
                             Category::optimizer),
            0, kScalar};
  }
  void return_losses(PlanBuilder& builder) const;

  const models::Model& model_;
  const offload::ParameterLayout& layout_;
  const StepOptions& options_;
  models::Target target_;
};

void StepPlanner::return_losses(PlanBuilder& builder) const {
  return_loss(builder, offload::kLoss, layout_.mesh);
  if (has_output(model_, models::OutputRole::auxiliary_loss))
    return_loss(builder, offload::kAuxiliaryLoss, layout_.mesh);
}

Plan StepPlanner::plan(const char* name, offload::MicroBatch micro_batch, bool is_last,
                       std::vector<offload::LayerPlan>& layers) const {
  PlanBuilder builder(name, target_);
  offload::PassOperands operands(layout_, builder, gradient_owner(), options_.transfers);
  offload::PassOptions pass{.policy = options_.policy,
                            .offload_layers = options_.offload_layers,
                            .others = options_.others,
                            .micro_batch = micro_batch,
                            .ends_step = is_last};
  std::optional<Update> update;
  std::optional<ForwardUpdate> in_forward;
  std::optional<BackwardUpdate> in_backward;
  if (defers() && micro_batch == offload::MicroBatch::first) {
    update.emplace(*options_.optimizer, operands, builder, deferred_factor(builder));
    in_forward.emplace(model_, layout_, layers_ahead(), *update);
    pass.forward_reached = [&](int stage, int layer, double done) {
      in_forward->forward_reached(stage, layer, done);
    };
  }
  std::optional<GradientNorm> norm;
  std::vector<int> made;  // slabs, in the order their gradients were made
  if (is_last && options_.optimizer) {
    norm.emplace(operands, builder);
    if (is_alone())
      pass.gradient_made = [&](const auto& location, const auto& place) {
        norm->gradient_made(location, place);
      };
    std::function<void(int)> update_slab = [&](int slab) { made.push_back(slab); };
    // Nothing has to wait for the norm, so each slab is updated as soon as its gradients are there.
    if (options_.optimizer->clipping_threshold == 0) {
      update.emplace(*options_.optimizer, operands, builder,
                     options_.optimizer->kind() == MemoryKind::device
                         ? operands.scalar(kNoClip)
                         : operands.host_scalar(kNoClip));
      update_slab = [&](int slab) {
        update->add(slab);
        update->finish();
      };
      if (update_moves()) {
        in_backward.emplace(*update);
        update_slab = [&](int slab) { in_backward->gradients_made(slab); };
        pass.backward_reached = [&](int, int, double done) { in_backward->backward_reached(done); };
      }
    }
    pass.gradients_made = [&, update_slab](int slab) {
      if (!is_alone()) norm->gradients_made(slab);
      update_slab(slab);
    };
  }
  offload::Scan scan(model_, operands, builder);
  scan.train(pass);
  if (in_backward) in_backward->finish();
  if (norm) {
    if (defers()) {
      norm->finish(options_.optimizer->clipping_threshold, deferred_factor(builder));
    } else if (options_.optimizer->clipping_threshold == 0) {
      norm->finish(0);
    } else {
      Operand factor = builder.temporary(kClipFactor, kScalar, MemoryKind::device, Category::batch);
      norm->finish(options_.optimizer->clipping_threshold, factor);
      update.emplace(*options_.optimizer, operands, builder, factor);
      for (int slab : made) update->add(slab);
      update->finish();
    }
    return_scalar(builder, kGradientNorm);
  }
  if (is_last) return_losses(builder);
  if (layers.empty()) layers = scan.layer_plans();
  return builder.finish(options_.transfers);
}

Plan StepPlanner::flush(const Plan& step) const {
  PlanBuilder builder("update", target_);
  offload::PassOperands operands(layout_, builder, gradient_owner(), options_.transfers, &step);
  Update update(*options_.optimizer, operands, builder, deferred_factor(builder));
  for (int slab = 0; slab < std::ssize(layout_.slabs); ++slab)
    if (layout_.slabs[slab].trainable == models::Trainable::yes) update.add(slab);
  update.finish();
  return builder.finish(options_.transfers);
}

}  // namespace

std::vector<const Plan*> StepPlans::all() const {
  std::vector<const Plan*> list;
  for (const Plan& plan : plans) list.push_back(&plan);
  if (flush) list.push_back(&*flush);
  return list;
}

StepPlans plan_step(const models::Model& model, const offload::ParameterLayout& layout,
                    const StepOptions& options, models::Target target) {
  using offload::MicroBatch;
  StepPlanner planner(model, layout, options, target);
  StepPlans result;
  result.micro_batches = options.micro_batches * layout.mesh.devices();
  auto add_plan = [&](const char* name, MicroBatch micro_batch, bool is_last) {
    result.plans.push_back(planner.plan(name, micro_batch, is_last, result.layers));
  };
  if (options.micro_batches == 1) {
    add_plan("step", MicroBatch::first, true);
  } else {
    add_plan("first micro-batch", MicroBatch::first, false);
    if (options.micro_batches > 2) add_plan("further micro-batch", MicroBatch::further, false);
    while (std::ssize(result.plans) < options.micro_batches - 1)
      result.plans.push_back(result.plans.back());
    add_plan("last micro-batch", MicroBatch::further, true);
    for (int64_t i = 1; i < options.micro_batches; ++i)
      rename_batch(result.plans[i], model,
                   [&](const std::string& input) { return batch_name(input, i); });
  }
  if (planner.defers()) result.flush = planner.flush(result.plans[0]);
  return result;
}

Plan plan_forward(const models::Model& model, const offload::ParameterLayout& layout,
                  const std::string& name, const offload::Transfers& transfers,
                  models::Target target, offload::Carries carries) {
  PlanBuilder builder(name, target);
  offload::PassOperands operands(layout, builder, offload::GradientOwner::plan, transfers);
  offload::Scan scan(model, operands, builder);
  scan.forward(carries);
  if (has_output(model, models::OutputRole::loss))
    return_loss(builder, offload::kLoss, layout.mesh);
  return builder.finish(transfers);
}

TrainStep::TrainStep(const StepPlans& plans, const models::AdamW& adamw, offload::Backend& backend,
                     offload::Arguments& arguments, const offload::Arenas& arenas)
    : plans_(plans), adamw_(adamw), backend_(backend), arguments_(arguments) {
  auto executable = [&](const Plan& plan) {
    return std::make_unique<offload::Executable>(plan, backend, arguments, arenas);
  };
  for (const Plan& plan : plans.plans) executables_.push_back(executable(plan));
  if (!plans.flush) return;
  flush_ = executable(*plans.flush);
  set_clip_factor(0);  // nothing was deferred yet
}

void TrainStep::set_clip_factor(float factor) {
  arguments_.write(kClipFactor, &factor, sizeof factor);
}

void TrainStep::write_update_scalars(const StepScalars& scalars) {
  double step = static_cast<double>(scalars.number);
  write_scalar(arguments_, kNoClip, 1);
  write_scalar(arguments_, kLearningRate, scalars.learning_rate);
  write_scalar(arguments_, kCorrection1, 1 - std::pow(adamw_.b1, step));
  write_scalar(arguments_, kCorrection2, 1 - std::pow(adamw_.b2, step));
  if (arguments_.has(offload::host_name(kStep))) {
    int32_t number = static_cast<int32_t>(scalars.number);
    arguments_.write(offload::host_name(kStep), &number, sizeof number);
  }
}

StepResult TrainStep::run(const std::vector<data::Batch>& batches, const StepScalars& scalars,
                          offload::Ledger& ledger) {
  if (batches.size() != plans_.plans.size())
    throw InternalError("a step of " + std::to_string(plans_.plans.size()) +
                        " micro-batches is given " + std::to_string(batches.size()));
  StepResult result;
  result.total_weights = scalars.total_weights;
  if (result.total_weights == 0)
    for (const data::Batch& batch : batches) result.total_weights += batch.total_weights;
  if (result.total_weights == 0) throw InternalError("a step without a trained target");

  write_scalar(arguments_, offload::kLossGradient, 1.0 / result.total_weights);
  write_scalar(arguments_, offload::kAuxiliaryLossGradient, 1.0 / plans_.micro_batches);
  write_update_scalars(flush_ ? deferred_.value_or(StepScalars{}) : scalars);
  for (size_t i = 0; i < batches.size(); ++i)
    write_batch(batches[i], arguments_, static_cast<int64_t>(i));
  execute([&] {
    for (const auto& executable : executables_) executable->run(ledger);
  });
  if (flush_) deferred_ = scalars;
  result.loss = static_cast<double>(read_scalar(arguments_, offload::kLoss)) / result.total_weights;
  if (arguments_.has(offload::host_name(offload::kAuxiliaryLoss)))
    result.auxiliary_loss = static_cast<double>(read_scalar(arguments_, offload::kAuxiliaryLoss)) /
                            plans_.micro_batches;
  result.gradient_norm = read_scalar(arguments_, kGradientNorm);
  return result;
}

void TrainStep::flush(offload::Ledger& ledger) {
  if (!deferred_) return;
  write_update_scalars(*deferred_);
  execute([&] { flush_->run(ledger); });
  set_clip_factor(0);
  deferred_.reset();
}

void TrainStep::execute(const std::function<void()>& plans) {
  if (has_failed_) throw Error("a step failed before; what it left is not whole");
  has_failed_ = true;
  plans();
  backend_.synchronize();
  has_failed_ = false;
}

StepResult TrainStep::record(const std::vector<data::Batch>& batches, const StepScalars& scalars,
                             offload::Ledger& ledger, std::vector<offload::Event>& events) {
  backend_.start_recording();
  StepResult result = run(batches, scalars, ledger);
  offload::LaneSpans spans = backend_.stop_recording();
  std::vector<const Plan*> ran;
  for (const Plan& plan : plans_.plans) ran.push_back(&plan);
  events = offload::timeline(ran, spans);
  return result;
}

void write_batch(const data::Batch& batch, offload::Arguments& arguments, int64_t micro_batch) {
  auto write = [&](const char* name, const std::vector<int32_t>& values) {
    std::string host = batch_name(name, micro_batch);
    if (arguments.has(host)) arguments.write(host, values.data(), values.size() * sizeof(int32_t));
  };
  write("tokens", batch.tokens);
  write("positions", batch.positions);
  write("targets", batch.targets);
  write("segments", batch.segments);
}

}  // namespace longshore::trainer
