#include "trainer/step.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "models/ops/linear_cross_entropy.h"

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

bool has_output(const models::Model& model, models::OutputRole role) {
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (const models::Output& output : program.outputs)
        if (output.role == role) return true;
  return false;
}

// Results go to the host at the end of the last micro-batch.
void return_scalar(PlanBuilder& builder, const char* name) {
  Operand device{builder.argument(name, kScalar.bytes(), MemoryKind::device, Category::batch), 0,
                 kScalar};
  Operand host{builder.argument(offload::host_name(name), kScalar.bytes(), MemoryKind::pinned_host,
                                Category::batch),
               0, kScalar};
  builder.move(Lane::device_to_host, device, host, {.stage = "results"});
}

void choose_batch(Plan& plan, const models::Model& model, int64_t micro_batch) {
  std::map<std::string, std::string> names;
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (models::ValueId id : program.inputs_from(models::Source::batch))
        names[offload::host_name(program[id].name)] = batch_name(program[id].name, micro_batch);
  for (offload::Buffer& buffer : plan.buffers)
    if (auto name = names.find(buffer.name);
        name != names.end() && buffer.owner == offload::Owner::caller)
      buffer.name = name->second;
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

std::string batch_name(const std::string& input, int64_t micro_batch) {
  return offload::host_name(input) + (micro_batch == 0 ? "" : "." + std::to_string(micro_batch));
}

StepPlans plan_step(const models::Model& model, const offload::ParameterLayout& layout,
                    const StepOptions& options, models::Target target) {
  StepPlans result;
  bool accumulates = options.micro_batches > 1 || !options.optimizer;
  auto add_plan = [&](offload::MicroBatch micro_batch, bool updates, const char* name) {
    PlanBuilder builder(name, target);
    offload::PassOperands operands(
        layout, builder,
        accumulates ? offload::GradientOwner::caller : offload::GradientOwner::plan,
        options.transfers);
    std::optional<Update> update;
    if (updates && options.optimizer) update.emplace(*options.optimizer, operands, builder);
    offload::PassOptions pass{.policy = options.policy,
                              .offload_layers = options.offload_layers,
                              .micro_batch = micro_batch,
                              .gradient_made = nullptr,
                              .gradients_made = nullptr};
    if (update) {
      pass.gradient_made = [&](const auto& location, const auto& place) {
        update->gradient_made(location, place);
      };
      pass.gradients_made = [&](int slab) { update->gradients_made(slab); };
    }
    offload::Scan scan(model, operands, builder);
    scan.train(pass);
    if (updates) {
      if (update) {
        update->finish();
        return_scalar(builder, kGradientNorm);
      }
      return_scalar(builder, offload::kLoss);
      if (has_output(model, models::OutputRole::auxiliary_loss))
        return_scalar(builder, offload::kAuxiliaryLoss);
    }
    result.plans.push_back(builder.finish(options.transfers));
    if (result.layers.empty()) result.layers = scan.layer_plans();
  };
  if (options.micro_batches == 1) {
    add_plan(offload::MicroBatch::first, true, "step");
    return result;
  }
  add_plan(offload::MicroBatch::first, false, "first micro-batch");
  if (options.micro_batches > 2) {
    add_plan(offload::MicroBatch::further, false, "further micro-batch");
    while (std::ssize(result.plans) < options.micro_batches - 1)
      result.plans.push_back(result.plans.back());
  }
  add_plan(offload::MicroBatch::further, true, "last micro-batch and update");
  for (int64_t i = 1; i < options.micro_batches; ++i) choose_batch(result.plans[i], model, i);
  return result;
}

Plan plan_forward(const models::Model& model, const offload::ParameterLayout& layout,
                  const std::string& name, const offload::Transfers& transfers,
                  models::Target target, offload::Carries carries) {
  PlanBuilder builder(name, target);
  offload::PassOperands operands(layout, builder, offload::GradientOwner::plan, transfers);
  offload::Scan scan(model, operands, builder);
  scan.forward(carries);
  if (has_output(model, models::OutputRole::loss)) return_scalar(builder, offload::kLoss);
  return builder.finish(transfers);
}

TrainStep::TrainStep(const StepPlans& plans, const models::AdamW& adamw, offload::Backend& backend,
                     offload::Arguments& arguments, const offload::Arena& device,
                     const offload::Arena& pinned_host)
    : plans_(plans), adamw_(adamw), backend_(backend), arguments_(arguments) {
  for (const Plan& plan : plans.plans)
    executables_.push_back(
        std::make_unique<offload::Executable>(plan, backend, arguments, device, pinned_host));
}

StepResult TrainStep::run(const std::vector<data::Batch>& batches, const StepScalars& scalars,
                          offload::Ledger& ledger) {
  if (batches.size() != plans_.plans.size())
    throw InternalError("a step of " + std::to_string(plans_.plans.size()) +
                        " micro-batches is given " + std::to_string(batches.size()));
  StepResult result;
  for (const data::Batch& batch : batches) result.total_weights += batch.total_weights;
  if (result.total_weights == 0) throw InternalError("a step without a trained target");

  double step = static_cast<double>(scalars.number);
  write_scalar(arguments_, offload::kLossGradient, 1.0 / result.total_weights);
  write_scalar(arguments_, offload::kAuxiliaryLossGradient, 1.0 / batches.size());
  write_scalar(arguments_, kNoClip, 1);
  if (arguments_.has(offload::host_name(kStep))) {
    int32_t number = static_cast<int32_t>(scalars.number);
    arguments_.write(offload::host_name(kStep), &number, sizeof number);
  }
  write_scalar(arguments_, kLearningRate, scalars.learning_rate);
  write_scalar(arguments_, kCorrection1, 1 - std::pow(adamw_.b1, step));
  write_scalar(arguments_, kCorrection2, 1 - std::pow(adamw_.b2, step));
  if (has_failed_) throw Error("a step failed before; what it left is not whole");
  has_failed_ = true;
  execute(batches, ledger);
  has_failed_ = false;
  result.loss = static_cast<double>(read_scalar(arguments_, offload::kLoss)) / result.total_weights;
  if (arguments_.has(offload::host_name(offload::kAuxiliaryLoss)))
    result.auxiliary_loss =
        static_cast<double>(read_scalar(arguments_, offload::kAuxiliaryLoss)) / batches.size();
  result.gradient_norm = read_scalar(arguments_, kGradientNorm);
  return result;
}

void TrainStep::execute(const std::vector<data::Batch>& batches, offload::Ledger& ledger) {
  for (size_t i = 0; i < batches.size(); ++i)
    write_batch(batches[i], arguments_, static_cast<int64_t>(i));
  for (const auto& executable : executables_) executable->run(ledger);
  backend_.synchronize();
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
}

}  // namespace longshore::trainer
