// quantize_weights() has a model keep matrices that do not train in fewer bits.
#pragma once

#include <functional>
#include <map>
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

Quantization quantization_of(const QuantizedMatrix& matrix);

// By the names of tensors in checkpoints (saved_names).
using Quantizations = std::map<std::string, Quantization, std::less<>>;

// Nothing for a tensor that stays as it is.
using ChooseQuantization = std::function<std::optional<Quantization>(const std::string& tensor)>;

// Those that are named. `stored` outlives it.
ChooseQuantization as_stored(const Quantizations& stored);

// Has matrices of linear layers and of experts that do not train stored as they are chosen for.
// Products read what dequantize gives, once for each. Embeddings, the head, routers, norms, biases
// and adapters stay as they are. Throws ConfigError where experts of one layer are not stored
// alike.
void quantize_weights(Model& model, const ChooseQuantization& choose);

}  // namespace longshore::models
