// SavedTensors are the tensors that files hold for a layout's parameters: each a parameter, several
// of them, whose rows follow each other, or a part of one, as an expert's matrix is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/lowering/parameter_layout.h"

namespace longshore::trainer {

// Elements of a parameter's tensor_shape() that follow each other.
struct SavedPart {
  const offload::Parameter* parameter = nullptr;
  int64_t first = 0, count = 0;
};

struct SavedTensor {
  std::string name;
  models::Shape shape;
  std::vector<SavedPart> parts;  // in the order of their rows
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

  // f(name, first element there, some of `values`) for each tensor that has some of the parameter's
  // elements from `first` on, which `values` are to be.
  template <class F>
  static void for_each_run(const offload::Parameter& parameter, int64_t first,
                           std::span<float> values, F f) {
    const int64_t slice = parameter.tensor_shape().count() / std::ssize(parameter.tensors);
    while (!values.empty()) {
      const int64_t within = first % slice;
      const auto count = static_cast<size_t>(std::min(std::ssize(values), slice - within));
      f(parameter.tensors[static_cast<size_t>(first / slice)], first_element(parameter) + within,
        values.first(count));
      values = values.subspan(count);
      first += static_cast<int64_t>(count);
    }
  }

 private:
  // The elements of the parameter's tensor that are before its own.
  static int64_t first_element(const offload::Parameter& parameter);

  std::vector<SavedTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace longshore::trainer
