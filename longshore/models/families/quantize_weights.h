// quantize_weights() has a model keep matrices that do not train in fewer bits.
#pragma once

#include "longshore/models/families/quantization.h"
#include "longshore/models/ir/model.h"

namespace longshore::models {

Quantization quantization_of(const QuantizedMatrix& matrix);

// Those that are named. `stored` outlives it.
ChooseQuantization as_stored(const Quantizations& stored);

// Has matrices of linear layers and of experts that do not train stored as they are chosen for.
// Products read what dequantize gives, once for each; those of one row read the codes themselves,
// where quantized_linear serves them. Embeddings, the head, routers, norms, biases and adapters
// stay as they are. Throws ConfigError where experts of one layer are not stored alike.
void quantize_weights(Model& model, const ChooseQuantization& choose);

}  // namespace longshore::models
