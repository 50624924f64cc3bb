#include "offload/gradient_function.h"

#include <algorithm>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/nearest.h"

namespace longshore::offload {
namespace {

Plan plan_gradient(const models::Model& model, const ParameterLayout& layout,
                   const GradientOptions& options, models::Target target) {
  PlanBuilder builder(model.name + " and its gradient", target);
  PassOperands operands(layout, builder, GradientOwner::caller, options.transfers);
  Scan scan(model, operands, builder);
  scan.train({.policy = options.policy,
              .offload_layers = options.offload_layers,
              .gradient_made = nullptr,
              .gradients_made = nullptr});
  return builder.finish(options.transfers);
}

}  // namespace

GradientFunction::GradientFunction(Runtime& runtime, const models::Model& model,
                                   const GradientOptions& options)
    : runtime_(runtime),
      layout_(lay_out(model, {.homes = options.homes})),
      plan_(plan_gradient(model, layout_, options, runtime.backend->target())),
      arguments_(*runtime.backend, runtime.ledger),
      arenas_(*runtime.backend, {&plan_}),
      executable_(plan_, *runtime.backend, arguments_, arenas_) {
  for (const char* name : {kLossGradient, kAuxiliaryLossGradient})
    if (float one = 1; arguments_.has(host_name(name)))
      arguments_.write(host_name(name), &one, sizeof one);
}

GradientFunction::~GradientFunction() = default;

GradientFunction::Range GradientFunction::range(const std::string& parameter, Copy copy) const {
  auto found = layout_.by_name.find(parameter);
  if (found == layout_.by_name.end()) {
    std::vector<std::string> names;
    for (const auto& [name, location] : layout_.by_name) names.push_back(name);
    throw InternalError("no parameter is named '" + parameter + "'; there are " + join(names));
  }
  const Slab& slab = layout_.slab(found->second);
  const Parameter& p = layout_.parameter(found->second);
  models::Dtype dtype = offload::dtype(slab, copy);
  return {argument_name(slab, copy), p.offset * models::size_bytes(dtype), {p.type.shape, dtype}};
}

void GradientFunction::write(const Range& range, std::span<const float> values) {
  if (static_cast<int64_t>(values.size()) != range.type.shape.count())
    throw InternalError(range.argument + ": expected " + models::text(range.type) + ", found " +
                        std::to_string(values.size()) + " values");
  if (range.type.dtype == models::Dtype::float32) {
    arguments_.write_part(range.argument, range.offset_bytes, values.data(), range.type.bytes());
    return;
  }
  std::vector<bfloat16> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(),
                 [](float value) { return to_bfloat16(value); });
  arguments_.write_part(range.argument, range.offset_bytes, narrow.data(), range.type.bytes());
}

void GradientFunction::set_parameter(const std::string& name, std::span<const float> values) {
  Range compute = range(name, Copy::compute);
  arguments_.at(compute.argument, bytes(layout_.slab(layout_.by_name.at(name)), Copy::compute),
                layout_.homes.of(Copy::compute), category(Copy::compute));
  write(compute, values);
}

void GradientFunction::set_batch(const std::string& name, std::span<const float> values) {
  if (!arguments_.has(host_name(name)))
    throw InternalError(plan_.name + ": no batch input is named '" + name + "'");
  arguments_.write(host_name(name), values.data(),
                   static_cast<int64_t>(values.size() * sizeof(float)));
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
  Range at = range(name, Copy::gradient);
  std::vector<float> values(static_cast<size_t>(at.type.shape.count()));
  arguments_.read_part(at.argument, at.offset_bytes, values.data(), at.type.bytes());
  return values;
}

}  // namespace longshore::offload
