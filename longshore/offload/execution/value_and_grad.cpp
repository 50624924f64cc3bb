#include "longshore/offload/execution/value_and_grad.h"

namespace longshore::offload {
namespace {

Plan plan_gradient(const models::Model& model, const ParameterLayout& layout,
                   const ValueAndGradOptions& options, models::Target target) {
  PlanBuilder builder(model.name + " and its gradient", target);
  PassOperands operands(layout, builder, GradientOwner::caller, options.transfers);
  Scan scan(model, operands, builder);
  scan.train(
      {.policy = options.policy, .on_parameter_gradient = nullptr, .on_bucket_gradients = nullptr});
  return builder.finish(options.transfers);
}

}  // namespace

ValueAndGrad::ValueAndGrad(Runtime& runtime, const models::Model& model,
                           const ValueAndGradOptions& options)
    : runtime_(runtime),
      layout_(lay_out(model, {.homes = options.homes})),
      plan_(plan_gradient(model, layout_, options, runtime.backend->target())),
      arguments_(*runtime.backend, runtime.ledger),
      values_(model, layout_, arguments_),
      arenas_(*runtime.backend, {&plan_}),
      executable_(plan_, *runtime.backend, arguments_, arenas_) {
  for (const char* name : {kLossGradient, kAuxiliaryLossGradient})
    if (float one = 1; arguments_.has(host_name(name)))
      arguments_.write(host_name(name), &one, sizeof one);
}

double ValueAndGrad::operator()() {
  executable_.run(runtime_.ledger);
  runtime_.backend->synchronize();
  double sum = 0;
  for (const char* name : {kLoss, kAuxiliaryLoss}) {
    if (!arguments_.has(name)) continue;
    float value;
    arguments_.read(name, &value, sizeof value);
    sum += value;
  }
  return sum;
}

}  // namespace longshore::offload
