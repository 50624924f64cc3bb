// ModelValues sets and reads a model's parameters, gradients and batch inputs by their names, where
// they live.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "longshore/models/ir/model.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::offload {

// All throw UsageError for an unknown name, listing the known ones, and for values of another type
// or number than the model has.
class ModelValues {
 public:
  // Layout and arguments must outlive this.
  ModelValues(const models::Model& model, const ParameterLayout& layout, Arguments& arguments);

  // Values of a parameter or batch input of float32 or bfloat16, rounded to nearest.
  void set_parameter(const std::string& name, std::span<const float> values);
  void set_batch(const std::string& name, std::span<const float> values);
  // Values of a batch input of int32.
  void set_batch(const std::string& name, std::span<const int32_t> values);

  // The values that are trained, where they are wider than those that layers read.
  std::vector<float> parameter(const std::string& name) const;
  // Also throws UsageError for a parameter that is frozen.
  std::vector<float> gradient(const std::string& name) const;

 private:
  // The part of an argument that holds the values of a parameter or batch input.
  struct Range {
    std::string argument;
    int64_t offset_bytes = 0;
    models::Type type;
  };
  const ParameterLayout::Location& location(const std::string& parameter) const;
  Range range(const ParameterLayout::Location& location, Copy copy) const;
  Range batch_range(const std::string& name) const;
  void write(const std::string& name, const Range& range, std::span<const float> values);
  std::vector<float> read(const std::string& name, const Range& range) const;

  const ParameterLayout& layout_;
  Arguments& arguments_;
  std::map<std::string, models::Type> batch_inputs_;
};

}  // namespace longshore::offload
