#include "longshore/models/families/lora_config.h"

#include <algorithm>
#include <cmath>

#include "longshore/models/families/family.h"

namespace longshore::models {
namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight",
                           kMagnitudes = ".lora_magnitude_vector", kExperts = "experts.",
                           kTokens = ".token_adapter.trainable_tokens_delta";

}  // namespace

double LoraConfig::scale(const LoraModule& module) const {
  const auto size = static_cast<double>(module.rank);
  return module.alpha / (rank_stabilized ? std::sqrt(size) : size);
}

std::string_view lora_target(std::string_view module) {
  const size_t word = module.rfind('.') + 1;
  const std::string_view before = module.substr(0, word);
  const bool is_of_experts = before == kExperts || before.ends_with("." + std::string(kExperts));
  return module.substr(is_of_experts ? word - kExperts.size() : word);
}

bool is_expert_target(std::string_view target) { return target.starts_with(kExperts); }

std::vector<std::string> lora_targets(const LayerTraits& layer, bool has_dense_layers) {
  std::vector<std::string> targets;
  for (const std::string& module : adaptable_modules(layer, has_dense_layers))
    if (const std::string target(lora_target(module));
        std::ranges::find(targets, target) == targets.end())
      targets.push_back(target);
  return targets;
}

std::vector<std::string> all_lora_targets() {
  std::vector<std::string> targets;
  for (const std::string& module : all_linear_modules()) targets.emplace_back(lora_target(module));
  for (const std::string& module : expert_modules(kMixtral.layer))
    targets.emplace_back(lora_target(module));
  targets.emplace_back(kHeadModule);
  return targets;
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
  const std::string_view target = lora_target(module);
  const bool is_target = std::ranges::find(config.targets, target) != config.targets.end();
  return is_target ? std::optional(LoraModule{config.rank, config.alpha}) : std::nullopt;
}

std::string lora_a_name(std::string_view module) { return std::string(module).append(kA); }
std::string lora_b_name(std::string_view module) { return std::string(module).append(kB); }

std::string lora_magnitudes_name(std::string_view module) {
  return std::string(module).append(kMagnitudes);
}

bool is_lora_weight(std::string_view name) {
  return name.ends_with(kA) || is_lora_b(name) || name.ends_with(kMagnitudes) ||
         is_trained_tokens(name);
}

std::string trained_tokens_name(std::string_view embedding_module) {
  return std::string(embedding_module).append(kTokens);
}

bool is_trained_tokens(std::string_view name) { return name.ends_with(kTokens); }

bool trains_with_adapters(const LoraConfig& config, std::string_view name) {
  if (is_lora_weight(name)) return true;
  const std::string_view within = within_text_model(name);
  return std::ranges::any_of(config.saved_modules, [&](const std::string& module) {
    const std::string weight = module + ".weight";
    return within == weight || within == "model." + weight;
  });
}
bool is_lora_b(std::string_view name) { return name.ends_with(kB); }

}  // namespace longshore::models
