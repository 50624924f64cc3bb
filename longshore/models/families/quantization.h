// A Quantization says how the numbers of a tensor are stored.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "longshore/base/quantization/quantized_matrix.h"

namespace longshore::models {

struct Quantization {
  QuantizedFormat format = QuantizedFormat::nf4;
  RoundedTo rounded_to = RoundedTo::float32;
  int64_t block = 64;              // nf4, fp4
  bool has_nested_scales = false;  // nf4, fp4

  bool operator==(const Quantization&) const = default;
};

// By the names of tensors in checkpoints (saved_names).
using Quantizations = std::map<std::string, Quantization, std::less<>>;

// Nothing for a tensor that stays as it is.
using ChooseQuantization = std::function<std::optional<Quantization>(const std::string& tensor)>;

}  // namespace longshore::models
