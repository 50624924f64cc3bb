#include "models/families/lora.h"

#include <cmath>

#include "models/ops/linear/linear.h"
#include "models/ops/scale.h"

namespace longshore::models {

Var lora_input(const LoraProduct& adapter, Var x, std::string_view module) {
  const int64_t in = x.type().shape.back();
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  Var a = x.trace->weight(lora_a_name(module), {{adapter.rank, in}, x.type().dtype},
                          {.init = {Init::Kind::uniform, bound}});
  // Scaled where it is narrow, which the gradients are then too.
  return scale(linear(x, a), adapter.scale, Factor::in_float32);
}

Var add_lora(Var input, Var product, std::string_view module,
             const std::optional<SavedSection>& saved) {
  const int64_t rank = input.type().shape.back(), out = product.type().shape.back();
  Var b = product.trace->weight(lora_b_name(module), {{out, rank}, input.type().dtype},
                                {.init = {Init::Kind::zeros}, .saved_section = saved});
  return linear(input, b, product);
}

}  // namespace longshore::models
