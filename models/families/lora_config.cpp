#include "models/families/lora_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace longshore::models {
namespace {

// In the order of kLoraTargets.
constexpr std::array<std::string_view, kLoraTargets.size()> kModules{
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

}  // namespace

double LoraConfig::scale(const LoraModule& module) const {
  const auto size = static_cast<double>(module.rank);
  return module.alpha / (rank_stabilized ? std::sqrt(size) : size);
}

std::string_view lora_module(std::string_view target) {
  for (std::string_view module : kModules)
    if (module.ends_with(target)) return module;
  throw InternalError(std::string(target) + " is no projection of a decoder layer");
}

std::string lora_module_name(int layer, std::string_view module) {
  return "model.layers." + std::to_string(layer) + "." + std::string(module);
}

std::string_view within_text_model(std::string_view name) {
  constexpr std::string_view kPrefix = "language_model.";
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

std::optional<LoraModule> adapter_of(const LoraConfig& config, std::string_view module) {
  if (config.rank == 0) return std::nullopt;
  if (!config.modules.empty()) {
    const auto found = config.modules.find(module);
    return found == config.modules.end() ? std::nullopt : std::optional(found->second);
  }
  const std::string_view target = module.substr(module.rfind('.') + 1);
  const bool is_target = std::ranges::find(config.targets, target) != config.targets.end();
  return is_target ? std::optional(LoraModule{config.rank, config.alpha}) : std::nullopt;
}

std::string lora_a_name(std::string_view module) { return std::string(module).append(kA); }
std::string lora_b_name(std::string_view module) { return std::string(module).append(kB); }

bool is_lora_weight(std::string_view name) { return name.ends_with(kA) || name.ends_with(kB); }

}  // namespace longshore::models
