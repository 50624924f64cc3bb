#include "trainer/weights/stored_as.h"

#include <map>
#include <optional>
#include <string>

#include "models/families/quantize_weights.h"

namespace longshore::trainer {

models::Model stored_as(const offload::ParameterLayout& layout, models::Model model) {
  std::map<std::string, models::Quantization> stored;
  for (const offload::Bucket& bucket : layout.buckets)
    for (const offload::Parameter& parameter : bucket.parameters)
      if (parameter.weight.quantized) {
        const QuantizedMatrix& matrix = parameter.weight.quantized->matrix;
        for (const std::string& tensor : parameter.tensors)
          stored[tensor] = {.format = matrix.format,
                            .rounded_to = matrix.rounded_to,
                            .block = matrix.block,
                            .has_nested_scales = matrix.has_nested_scales};
      }
  if (stored.empty()) return model;
  set_trainable(model, [](const std::string&) { return false; });
  quantize_weights(model, [&](const std::string& tensor) -> std::optional<models::Quantization> {
    const auto found = stored.find(tensor);
    return found == stored.end() ? std::nullopt : std::optional(found->second);
  });
  return model;
}

}  // namespace longshore::trainer
