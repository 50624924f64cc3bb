#include "longshore/trainer/step/step.h"

#include <algorithm>
#include <string>

#include "longshore/base/error.h"
#include "longshore/models/ops/square_sum/square_sum.h"
#include "longshore/trainer/step/gradient_norm.h"

namespace longshore::trainer {

using offload::Plan;

namespace {

float read_scalar(const offload::Arguments& arguments, const char* name) {
  float value;
  arguments.read(offload::host_name(name), &value, sizeof value);
  return value;
}

// Writes an input that this model may not have.
void write_scalar(offload::Arguments& arguments, const std::string& name, double value) {
  float narrow = static_cast<float>(value);
  if (arguments.has(offload::host_name(name)))
    arguments.write(offload::host_name(name), &narrow, sizeof narrow);
}

}  // namespace

TrainStep::TrainStep(const StepPlans& plans, offload::Backend& backend,
                     offload::Arguments& arguments, const offload::Arenas& arenas)
    : plans_(plans),
      backend_(backend),
      arguments_(arguments),
      inputs_(plans, backend, arguments, arenas) {
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
  write_scalar(
      arguments_, kGivenClipFactor,
      clipping_norm_ ? models::clip_factor(*clipping_norm_, plans_.previous_norm_threshold) : 1);
  for (size_t i = 0; i < plans_.optimizers.size(); ++i) {
    const models::Optimizer& optimizer = plans_.optimizers[i];
    write_scalar(arguments_, learning_rate_scalar(optimizer, i),
                 scalars.learning_rate * optimizer.learning_rate_ratio);
    for (size_t s = 0; s < optimizer.rule->scalars.size(); ++s)
      write_scalar(arguments_, rule_scalar(optimizer, i, s),
                   optimizer.rule->scalar(optimizer.numbers, s, scalars.number));
  }
  if (arguments_.has(offload::host_name(kStep))) {
    int32_t number = static_cast<int32_t>(scalars.number);
    arguments_.write(offload::host_name(kStep), &number, sizeof number);
  }
}

StepResult TrainStep::run(const std::vector<data::Batch>& batches, const StepScalars& scalars,
                          offload::Ledger& ledger, const std::vector<data::Batch>& mismatched) {
  if (std::ssize(batches) != plans_.micro_batches)
    throw InternalError("a step of " + std::to_string(plans_.micro_batches) +
                        " micro-batches is given " + std::to_string(batches.size()));
  StepResult result;
  result.total_weights = scalars.total_weights;
  int64_t chosen_targets = scalars.chosen_targets;
  if (result.total_weights == 0)
    for (const data::Batch& batch : batches) {
      result.total_weights += batch.total_weights;
      chosen_targets += batch.chosen_targets;
    }
  if (result.total_weights == 0) throw InternalError("a step without a trained target");
  // A pass before them takes the place of gradients that a deferred update would read.
  if (plans_.reference || plans_.log_probs) flush(ledger);

  write_scalar(arguments_, offload::kLossGradient, 1.0 / result.total_weights);
  write_scalar(arguments_, offload::kSftLossGradient, 1.0 / std::max<int64_t>(1, chosen_targets));
  write_scalar(arguments_, offload::kAuxiliaryLossGradient,
               1.0 / plans_.micro_batches_of_all_devices);
  write_update_scalars(flush_ ? deferred_.value_or(StepScalars{}) : scalars);
  execute([&] {
    inputs_.write(batches, mismatched, ledger);
    const std::vector<offload::PlanRuns> runs = plans_.passes();
    for (size_t i = 0; i < runs.size(); ++i)
      for (int64_t number = 0; number < runs[i].times; ++number)
        executables_[i]->run(ledger, number);
  });
  if (flush_) deferred_ = scalars;
  result.loss = static_cast<double>(read_scalar(arguments_, offload::kLoss)) / result.total_weights;
  const auto mean = [&](const char* name) {
    const bool is_there = arguments_.has(offload::host_name(name));
    return is_there ? static_cast<double>(read_scalar(arguments_, name)) /
                          plans_.micro_batches_of_all_devices
                    : 0;
  };
  if (arguments_.has(offload::host_name(offload::kSftLoss))) {
    result.sft_loss = static_cast<double>(read_scalar(arguments_, offload::kSftLoss)) /
                      static_cast<double>(std::max<int64_t>(1, chosen_targets));
    result.loss += result.sft_loss;
  }
  result.rewards = inputs_.rewards(batches);
  result.policy = inputs_.policy_figures(batches);
  result.auxiliary_loss = mean(offload::kAuxiliaryLoss);
  result.expert_load = mean(offload::kExpertLoad);
  result.gradient_norm = read_scalar(arguments_, kGradientNorm);
  if (plans_.previous_norm_threshold > 0) clipping_norm_ = result.gradient_norm;
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
                             offload::Ledger& ledger, std::vector<offload::Event>& events,
                             const std::vector<data::Batch>& mismatched) {
  backend_.start_recording();
  StepResult result = run(batches, scalars, ledger, mismatched);
  offload::LaneSpans spans = backend_.stop_recording();
  events = offload::timeline(plans_.in_order(), spans);
  return result;
}

}  // namespace longshore::trainer
