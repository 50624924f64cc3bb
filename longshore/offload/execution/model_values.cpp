#include "longshore/offload/execution/model_values.h"

#include <algorithm>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/offload/lowering/pass_operands.h"

namespace longshore::offload {
namespace {

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

void expect_count(const std::string& name, const models::Type& type, size_t count) {
  if (static_cast<int64_t>(count) != type.shape.count())
    throw UsageError(name + ": expected " + models::text(type) + ", found " +
                     std::to_string(count) + " values");
}

}  // namespace

ModelValues::ModelValues(const models::Model& model, const ParameterLayout& layout,
                         Arguments& arguments)
    : layout_(layout), arguments_(arguments), batch_inputs_(batch_inputs(model)) {}

const ParameterLayout::Location& ModelValues::location(const std::string& parameter) const {
  return at(layout_.by_name, parameter, "parameter");
}

ModelValues::Range ModelValues::range(const ParameterLayout::Location& location, Copy copy) const {
  const Bucket& bucket = layout_.bucket(location);
  const Parameter& p = layout_.parameter(location);
  models::Dtype dtype = offload::dtype(bucket, copy);
  return {argument_name(bucket, copy), p.offset * models::size_bytes(dtype), {p.type.shape, dtype}};
}

ModelValues::Range ModelValues::batch_range(const std::string& name) const {
  return {host_name(name), 0, at(batch_inputs_, name, "batch input")};
}

void ModelValues::write(const std::string& name, const Range& range,
                        std::span<const float> values) {
  expect_count(name, range.type, values.size());
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

std::vector<float> ModelValues::read(const std::string& name, const Range& range) const {
  std::vector<float> values(static_cast<size_t>(range.type.shape.count()));
  switch (range.type.dtype) {
    case models::Dtype::float32:
      arguments_.read_part(range.argument, range.offset_bytes, values.data(), range.type.bytes());
      return values;
    case models::Dtype::bfloat16: {
      std::vector<bfloat16> narrow(values.size());
      arguments_.read_part(range.argument, range.offset_bytes, narrow.data(), range.type.bytes());
      std::ranges::transform(narrow, values.begin(),
                             [](bfloat16 value) { return to_float(value); });
      return values;
    }
    default:
      throw UsageError(name + ": float32 values are asked of " + models::text(range.type) +
                       "; expected a type of f32 or bf16");
  }
}

void ModelValues::set_parameter(const std::string& name, std::span<const float> values) {
  const ParameterLayout::Location& at = location(name);
  const Bucket& bucket = layout_.bucket(at);
  const Range compute = range(at, Copy::compute);
  arguments_.at(compute.argument, bytes(bucket, Copy::compute), bucket.homes.of(Copy::compute),
                category(Copy::compute));
  write(name, compute, values);
  if (const Range master = range(at, Copy::master);
      bucket.has(Copy::master) && arguments_.has(master.argument))
    write(name, master, values);
}

void ModelValues::set_batch(const std::string& name, std::span<const float> values) {
  write(name, batch_range(name), values);
}

void ModelValues::set_batch(const std::string& name, std::span<const int32_t> values) {
  const Range range = batch_range(name);
  expect_count(name, range.type, values.size());
  if (range.type.dtype != models::Dtype::int32)
    throw UsageError(name + ": int32 values are given for " + models::text(range.type) +
                     "; expected a type of i32");
  arguments_.write_part(range.argument, 0, values.data(), range.type.bytes());
}

std::vector<float> ModelValues::parameter(const std::string& name) const {
  const ParameterLayout::Location& at = location(name);
  if (layout_.bucket(at).has(Copy::master))
    if (const Range master = range(at, Copy::master); arguments_.has(master.argument))
      return read(name, master);
  return read(name, range(at, Copy::compute));
}

std::vector<float> ModelValues::gradient(const std::string& name) const {
  const ParameterLayout::Location& at = location(name);
  if (!layout_.bucket(at).has(Copy::gradient))
    throw UsageError(name + ": it is frozen, so it has no gradient");
  return read(name, range(at, Copy::gradient));
}

}  // namespace longshore::offload
