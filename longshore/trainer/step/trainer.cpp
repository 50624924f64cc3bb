#include "longshore/trainer/step/trainer.h"

#include "longshore/base/error.h"
#include "longshore/trainer/weights/initialize.h"

namespace longshore::trainer {
namespace {

offload::ParameterLayout layout_of(const models::Model& model, const TrainerOptions& options) {
  return offload::lay_out(
      model, {.weight_dtype = options.weight_dtype,
              .homes = options.homes,
              .optimizers = {{.states = states_of(options.optimizer, options.state_format)}}});
}

StepOptions step_options(const TrainerOptions& options) {
  return {.policy = options.policy,
          .transfers = options.transfers,
          .optimizer = OptimizerOptions{.optimizers = {options.optimizer},
                                        .clipping_threshold = options.clipping_threshold,
                                        .clipping_norm = options.clipping_norm,
                                        .seed = options.seed,
                                        .lane = options.update_lane}};
}

}  // namespace

Trainer::Trainer(offload::Runtime& runtime, const models::Model& model,
                 const TrainerOptions& options)
    : runtime_(runtime),
      layout_(layout_of(model, options)),
      plans_(plan_step(model, layout_, step_options(options), runtime.backend->target())),
      arguments_(*runtime.backend, runtime.ledger),
      values_(model, layout_, arguments_),
      arenas_(*runtime.backend, plans_.all()),
      step_(plans_, *runtime.backend, arguments_, arenas_) {
  initialize(layout_, options.seed, arguments_);
}

// What a step leaves to be updated later would be updated by its gradients after that.
void Trainer::set_parameter(const std::string& name, std::span<const float> values) {
  step_.flush(runtime_.ledger);
  values_.set_parameter(name, values);
}

std::vector<float> Trainer::parameter(const std::string& name) {
  step_.flush(runtime_.ledger);
  return values_.parameter(name);
}

StepResult Trainer::step(double learning_rate, int64_t total_weights) {
  if (total_weights < 1)
    throw UsageError("a step's total_weights: found " + std::to_string(total_weights) +
                     ", expected at least 1");
  return step_.run(
      {data::Batch{}},
      {.learning_rate = learning_rate, .number = ++steps_, .total_weights = total_weights},
      runtime_.ledger);
}

}  // namespace longshore::trainer
