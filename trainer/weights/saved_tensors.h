// SavedTensors are the tensors that files hold for a layout's parameters: each a parameter, or
// several of them, whose rows follow each other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "offload/lowering/parameter_layout.h"

namespace longshore::trainer {

struct SavedTensor {
  std::string name;
  models::Shape shape;
  std::vector<const offload::Parameter*> parts;  // in the order of their rows
};

// Which parameters: those of adapters, which have files of their own, or the others.
enum class SavedIn : uint8_t { model, adapter };

class SavedTensors {
 public:
  // `layout` outlives it. Throws InternalError where the parts of a tensor do not fit together.
  SavedTensors(const offload::ParameterLayout& layout, SavedIn in);

  // In the order of the layout, a tensor where its first part is.
  const std::vector<SavedTensor>& all() const { return tensors_; }
  const SavedTensor* find(std::string_view name) const;  // nullptr: none of that name
  // The elements of the parameter's tensor that are before its own.
  static int64_t first_element(const offload::Parameter& parameter);

 private:
  std::vector<SavedTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace longshore::trainer
