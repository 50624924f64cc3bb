#include "longshore/trainer/weights/stored_as.h"

#include <string>

#include "longshore/models/families/quantize_weights.h"

namespace longshore::trainer {

models::Model stored_as(const offload::ParameterLayout& layout, models::Model model) {
  models::Quantizations stored;
  for (const offload::Bucket& bucket : layout.buckets)
    for (const offload::Parameter& parameter : bucket.parameters)
      if (parameter.weight.quantized)
        for (const std::string& tensor : parameter.tensors)
          stored[tensor] = models::quantization_of(parameter.weight.quantized->matrix);
  if (stored.empty()) return model;
  set_trainable(model, [](const std::string&) { return false; });
  quantize_weights(model, models::as_stored(stored));
  return model;
}

}  // namespace longshore::trainer
