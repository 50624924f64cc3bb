#include "longshore/offload/execution/gradient_function.h"

#include <algorithm>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/base/text.h"

namespace longshore::offload {
namespace {

Plan plan_gradient(const models::Model& model, const ParameterLayout& layout,
                   const GradientOptions& options, models::Target target) {
  PlanBuilder builder(model.name + " and its gradient", target);
  PassOperands operands(layout, builder, GradientOwner::caller, options.transfers);
  Scan scan(model, operands, builder);
  scan.train(
      {.policy = options.policy, .on_parameter_gradient = nullptr, .on_bucket_gradients = nullptr});
  return builder.finish(options.transfers);
}

std::map<std::string, models::Type> batch_inputs(const models::Model& model) {
  std::map<std::string, models::Type> inputs;
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (models::Source source : {models::Source::batch, models::Source::scalar})
        for (models::ValueId id : program.inputs_from(source))
          inputs[program[id].name] = program[id].type;
  return inputs;
}

// Throws the UsageError for a name that `known` lacks.
template <class T>
const T& at(const std::map<std::string, T>& known, const std::string& name,
            const std::string& what) {
  if (auto found = known.find(name); found != known.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [other, value] : known) names.push_back(other);
  throw UsageError("no " + what + " is named '" + name + "'; there are " + join(names));
}

}  // namespace

GradientFunction::GradientFunction(Runtime& runtime, const models::Model& model,
                                   const GradientOptions& options)
    : runtime_(runtime),
      layout_(lay_out(model, {.homes = options.homes})),
      batch_inputs_(batch_inputs(model)),
      plan_(plan_gradient(model, layout_, options, runtime.backend->target())),
      arguments_(*runtime.backend, runtime.ledger),
      arenas_(*runtime.backend, {&plan_}),
      executable_(plan_, *runtime.backend, arguments_, arenas_) {
  for (const char* name : {kLossGradient, kAuxiliaryLossGradient})
    if (float one = 1; arguments_.has(host_name(name)))
      arguments_.write(host_name(name), &one, sizeof one);
}

GradientFunction::~GradientFunction() = default;

const ParameterLayout::Location& GradientFunction::location(const std::string& parameter) const {
  return at(layout_.by_name, parameter, "parameter");
}

GradientFunction::Range GradientFunction::range(const ParameterLayout::Location& location,
                                                Copy copy) const {
  const Bucket& bucket = layout_.bucket(location);
  const Parameter& p = layout_.parameter(location);
  models::Dtype dtype = offload::dtype(bucket, copy);
  return {argument_name(bucket, copy), p.offset * models::size_bytes(dtype), {p.type.shape, dtype}};
}

void GradientFunction::write(const std::string& name, const Range& range,
                             std::span<const float> values) {
  if (std::ssize(values) != range.type.shape.count())
    throw UsageError(name + ": expected " + models::text(range.type) + ", found " +
                     std::to_string(values.size()) + " values");
  switch (range.type.dtype) {
    case models::Dtype::float32:
      return arguments_.write_part(range.argument, range.offset_bytes, values.data(),
                                   range.type.bytes());
    case models::Dtype::bfloat16: {
      std::vector<bfloat16> narrow(values.size());
      std::ranges::transform(values, narrow.begin(),
                             [](float value) { return to_bfloat16(value); });
      return arguments_.write_part(range.argument, range.offset_bytes, narrow.data(),
                                   range.type.bytes());
    }
    default:
      throw UsageError(name + ": float32 values are given for " + models::text(range.type) +
                       "; expected a type of f32 or bf16");
  }
}

void GradientFunction::set_parameter(const std::string& name, std::span<const float> values) {
  const ParameterLayout::Location& at = location(name);
  const Range compute = range(at, Copy::compute);
  const Bucket& bucket = layout_.bucket(at);
  arguments_.at(compute.argument, bytes(bucket, Copy::compute), bucket.homes.of(Copy::compute),
                category(Copy::compute));
  write(name, compute, values);
}

void GradientFunction::set_batch(const std::string& name, std::span<const float> values) {
  write(name, {host_name(name), 0, at(batch_inputs_, name, "batch input")}, values);
}

double GradientFunction::operator()() {
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

std::vector<float> GradientFunction::gradient(const std::string& name) const {
  const ParameterLayout::Location& at = location(name);
  if (!layout_.bucket(at).has(Copy::gradient))
    throw UsageError(name + ": it is frozen, so it has no gradient");
  const Range gradient = range(at, Copy::gradient);
  std::vector<float> values(static_cast<size_t>(gradient.type.shape.count()));
  arguments_.read_part(gradient.argument, gradient.offset_bytes, values.data(),
                       gradient.type.bytes());
  return values;
}

}  // namespace longshore::offload
