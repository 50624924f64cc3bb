#include "trainer/weights/saved_tensors.h"

#include <algorithm>

#include "base/error.h"
#include "models/families/lora_config.h"

namespace longshore::trainer {
namespace {

using offload::Parameter;

int64_t first_row(const Parameter& parameter) {
  const auto& rows = parameter.weight.saved_rows;
  return rows ? rows->first : 0;
}

// Of one of the parameter's tensors, or of its part of that.
models::Shape shape_of(const Parameter& parameter) {
  const models::Shape whole = parameter.tensor_shape();
  if (!parameter.weight.saved_slices) return whole;
  return whole.rank() == 2 ? models::Shape{whole[1]} : models::Shape{whole[1], whole[2]};
}

// The shape of all parts together, once these are in order.
models::Shape shape_of(const SavedTensor& tensor) {
  models::Shape shape = shape_of(*tensor.parts[0].parameter);
  int64_t rows = 0;
  for (const SavedPart& part : tensor.parts) {
    const models::Shape own = shape_of(*part.parameter);
    if (first_row(*part.parameter) != rows || own.with(0, 1) != shape.with(0, 1))
      throw InternalError(part.parameter->name + ": its rows of " + tensor.name +
                          " do not follow those of the parts before");
    rows += own[0];
  }
  return shape.with(0, rows);
}

}  // namespace

SavedTensors::SavedTensors(const offload::ParameterLayout& layout, SavedIn in) {
  for (const offload::Bucket& bucket : layout.buckets) {
    for (const Parameter& parameter : bucket.parameters) {
      if (models::is_lora_weight(parameter.name) != (in == SavedIn::adapter)) continue;
      const int64_t count = shape_of(parameter).count();
      for (int64_t first = 0; const std::string& name : parameter.tensors) {
        const auto [known, is_new] = by_name_.try_emplace(name, tensors_.size());
        if (is_new) tensors_.push_back({.name = name, .shape = {}, .parts = {}});
        tensors_[known->second].parts.push_back({&parameter, first, count});
        first += count;
      }
    }
  }
  for (SavedTensor& tensor : tensors_) {
    std::ranges::sort(tensor.parts, {},
                      [](const SavedPart& part) { return first_row(*part.parameter); });
    tensor.shape = shape_of(tensor);
  }
}

const SavedTensor* SavedTensors::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

int64_t SavedTensors::first_element(const Parameter& parameter) {
  const models::Shape shape = parameter.tensor_shape();
  return first_row(parameter) == 0 ? 0 : first_row(parameter) * (shape.count() / shape[0]);
}

}  // namespace longshore::trainer
