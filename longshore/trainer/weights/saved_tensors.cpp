#include "longshore/trainer/weights/saved_tensors.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/models/families/lora_config.h"

namespace longshore::trainer {
namespace {

using models::SavedSection;
using models::Shape;
using offload::Parameter;

SavedSection section(const Parameter& parameter) {
  return parameter.weight.saved_section.value_or(SavedSection{});
}

// Of one of the parameter's tensors, or of its section of that.
Shape shape_of(const Parameter& parameter) {
  const Shape whole = parameter.tensor_shape();
  if (!parameter.weight.saved_slices && !parameter.weight.saved_innermost) return whole;
  return whole.rank() == 2 ? Shape{whole[1]} : Shape{whole[1], whole[2]};
}

// Elements that follow each other for one step along the axis.
int64_t step_elements(const Shape& shape, int axis) {
  int64_t elements = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) elements *= shape[i];
  return elements;
}

// Those of which the first dimension is innermost: a part for each of that dimension in the place
// of every part.
void weave(SavedTensor& tensor) {
  const int64_t step = tensor.parts[0].parameter->type.shape[0];
  std::vector<SavedPart> woven;
  for (const SavedPart& part : tensor.parts) {
    if (!part.parameter->weight.saved_innermost || part.parameter->type.shape[0] != step)
      throw InternalError(part.parameter->name + ": its elements of " + tensor.name +
                          " do not take turns as the others'");
    for (int64_t i = 0; i < step; ++i)
      woven.push_back({.parameter = part.parameter,
                       .first = i * part.count,
                       .count = part.count,
                       .run = part.run,
                       .offset = part.offset * step + i,
                       .step = step});
  }
  tensor.parts = std::move(woven);
  tensor.period *= step;
  tensor.shape = tensor.shape.with(1, tensor.shape[1] * step);
}

// The shape, the period and each part's place in it, once the parts are in order.
void lay_out(SavedTensor& tensor) {
  const SavedSection first = section(*tensor.parts[0].parameter);
  tensor.shape = shape_of(*tensor.parts[0].parameter);
  const bool takes_turns = first.step > 1;
  int64_t along = 0;  // of the axis, so far
  for (SavedPart& part : tensor.parts) {
    const SavedSection own = section(*part.parameter);
    const Shape shape = shape_of(*part.parameter);
    const int64_t place = takes_turns ? along / shape[own.axis] : along;
    if (own.first != place || own.axis != first.axis || own.step != first.step ||
        shape.with(own.axis, 1) != tensor.shape.with(own.axis, 1) ||
        (takes_turns && (shape != tensor.shape || own.step != std::ssize(tensor.parts))))
      throw InternalError(part.parameter->name + ": its section of " + tensor.name +
                          " does not follow those before");
    part.run = step_elements(shape, own.axis) * (takes_turns ? 1 : shape[own.axis]);
    part.offset = tensor.period;
    tensor.period += part.run;
    along += shape[own.axis];
  }
  tensor.shape = tensor.shape.with(first.axis, along);
  if (tensor.parts[0].parameter->weight.saved_innermost) weave(tensor);
}

}  // namespace

SavedTensors::SavedTensors(const offload::ParameterLayout& layout, SavedIn in) {
  for (const offload::Bucket& bucket : layout.buckets) {
    for (const Parameter& parameter : bucket.parameters) {
      if (in == SavedIn::adapter ? !parameter.weight.of_adapter
                                 : models::is_lora_weight(parameter.name))
        continue;
      const int64_t count = shape_of(parameter).count();
      for (int64_t first = 0; const std::string& name : parameter.tensors) {
        const auto [known, is_new] = by_name_.try_emplace(name, tensors_.size());
        if (is_new) tensors_.push_back({.name = name, .shape = {}, .parts = {}});
        tensors_[known->second].parts.push_back(
            {.parameter = &parameter, .first = first, .count = count});
        first += count;
      }
    }
  }
  for (SavedTensor& tensor : tensors_) {
    std::ranges::sort(tensor.parts, {},
                      [](const SavedPart& part) { return section(*part.parameter).first; });
    lay_out(tensor);
  }
}

const SavedTensor* SavedTensors::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

SavedTensors::RunAt SavedTensors::run_at(const Parameter& parameter, int64_t element) const {
  const int64_t slice = parameter.tensor_shape().count() / std::ssize(parameter.tensors);
  const SavedTensor& tensor = *find(parameter.tensors[static_cast<size_t>(element / slice)]);
  const SavedPart& part = *std::ranges::find_if(tensor.parts, [&](const SavedPart& each) {
    return element >= each.first && element < each.first + each.count &&
           each.parameter->name == parameter.name;
  });
  const int64_t within = element - part.first, in_run = within % part.run;
  const int64_t first = within / part.run * tensor.period + part.offset + in_run * part.step;
  // Runs of one element are one run of many, a period from one to the next.
  if (part.run == 1) return {{tensor, first, tensor.period}, part.count - within};
  return {{tensor, first, part.step}, part.run - in_run};
}

}  // namespace longshore::trainer
