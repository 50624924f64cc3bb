// quantize_weights() has a model keep matrices that do not train in fewer bits.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "models/ir/model.h"

namespace longshore::models {

// How the numbers of a tensor are stored.
struct Quantization {
  QuantizedFormat format = QuantizedFormat::nf4;
  RoundedTo rounded_to = RoundedTo::float32;
  int64_t block = 64;              // nf4, fp4
  bool has_nested_scales = false;  // nf4, fp4

  bool operator==(const Quantization&) const = default;
};

// What each matrix of a linear layer or of experts that does not train is stored in, by its name in
// checkpoints (saved_names); nothing for one that stays as it is. Products read what dequantize
// gives, once for each. Embeddings, the head, routers, norms, biases and adapters stay as they are.
// Throws ConfigError where experts of one layer are not stored alike.
void quantize_weights(
    Model& model,
    const std::function<std::optional<Quantization>(const std::string& tensor)>& choose);

}  // namespace longshore::models
