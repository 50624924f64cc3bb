#include "models/lora.h"

#include <algorithm>
#include <cmath>

#include "models/ops/linear.h"
#include "models/ops/scale.h"

namespace longshore::models {
namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

}  // namespace

bool is_adapted(const LoraConfig& config, std::string_view module) {
  size_t dot = module.rfind('.');
  std::string_view target = dot == std::string_view::npos ? module : module.substr(dot + 1);
  return config.rank > 0 && std::ranges::find(config.targets, target) != config.targets.end();
}

std::string lora_a_name(std::string_view module) { return std::string(module).append(kA); }
std::string lora_b_name(std::string_view module) { return std::string(module).append(kB); }

bool is_lora_weight(std::string_view name) { return name.ends_with(kA) || name.ends_with(kB); }

Var add_lora(const LoraConfig& config, Var x, Var product, std::string_view module) {
  Trace& t = *x.trace;
  int64_t in = x.type().shape.back(), out = product.type().shape.back();
  Dtype dtype = x.type().dtype;
  double bound = 1 / std::sqrt(static_cast<double>(in));
  Var a = t.weight(lora_a_name(module), {{config.rank, in}, dtype},
                   {.init = {Init::Kind::uniform, bound}});
  Var b = t.weight(lora_b_name(module), {{out, config.rank}, dtype}, {.init = {Init::Kind::zeros}});
  // Scaled where it is narrow, which the gradients are then too.
  Var low = scale(linear(x, a), config.scale(), Factor::in_float32);  // [.., rank]
  return linear(low, b, product);
}

}  // namespace longshore::models
