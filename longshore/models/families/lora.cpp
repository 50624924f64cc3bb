#include "longshore/models/families/lora.h"

#include <cmath>

#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/scale.h"

namespace longshore::models {

Var lora_a(const LoraProduct& adapter, Var x, std::string_view module) {
  const int64_t in = x.type().shape.back();
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  return x.trace->weight(lora_a_name(module), {{adapter.rank, in}, x.type().dtype},
                         {.init = {Init::Kind::uniform, bound}, .of_adapter = true});
}

Var lora_input(const LoraProduct& adapter, Var x, Var a) {
  // Scaled where it is narrow, which the gradients are then too.
  return scale(linear(x, a), adapter.scale, Factor::in_float32);
}

Var lora_b(int64_t rank, Var product, std::string_view module,
           const std::optional<SavedSection>& saved) {
  const int64_t out = product.type().shape.back();
  return product.trace->weight(
      lora_b_name(module), {{out, rank}, product.type().dtype},
      {.init = {Init::Kind::zeros}, .saved_section = saved, .of_adapter = true});
}

Var lora_magnitudes(Var product, std::string_view module,
                    const std::optional<SavedSection>& saved) {
  return product.trace->weight(lora_magnitudes_name(module),
                               {{product.type().shape.back()}, product.type().dtype},
                               {.decay = Decay::no,
                                .init = {Init::Kind::row_norms},
                                .saved_section = saved,
                                .of_adapter = true});
}

}  // namespace longshore::models
