#include "models/families/lora.h"

#include <cmath>

#include "models/ops/linear/linear.h"
#include "models/ops/scale.h"

namespace longshore::models {

Var add_lora(const LoraProduct& adapter, Var x, Var product, std::string_view module) {
  Trace& t = *x.trace;
  int64_t in = x.type().shape.back(), out = product.type().shape.back();
  Dtype dtype = x.type().dtype;
  double bound = 1 / std::sqrt(static_cast<double>(in));
  Var a = t.weight(lora_a_name(module), {{adapter.rank, in}, dtype},
                   {.init = {Init::Kind::uniform, bound}});
  Var b =
      t.weight(lora_b_name(module), {{out, adapter.rank}, dtype}, {.init = {Init::Kind::zeros}});
  // Scaled where it is narrow, which the gradients are then too.
  Var low = scale(linear(x, a), adapter.scale, Factor::in_float32);  // [.., rank]
  return linear(low, b, product);
}

}  // namespace longshore::models
