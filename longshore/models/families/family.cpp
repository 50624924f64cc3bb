#include "longshore/models/families/family.h"

#include <algorithm>

namespace longshore::models {
namespace {

constexpr std::string_view kMlp = "mlp.";
constexpr std::string_view kLinearModules[] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

}  // namespace

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> all{
      &kLlama,      &kMistral, &kQwen2,    &kQwen3,  &kGemma,      &kGemma2, &kGemma3Text,
      &kOlmo2,      &kGranite, &kSmolLm3,  &kOlmo3,  &kMinistral3, &kPhi3,   &kGlm4,
      &kGemma4Text, &kMixtral, &kQwen3Moe, &kGptOss, &kLlama4Text};
  return all;
}

const FamilyField* find_field(const Family& family, const Field& field) {
  const auto found = std::ranges::find(family.hf.fields, &field, &FamilyField::field);
  return found == family.hf.fields.end() ? nullptr : &*found;
}

const Family* find_family(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : *found;
}

std::vector<std::string> linear_modules(const LayerTraits& layer, bool has_dense_layers) {
  std::vector<std::string> modules;
  auto add = [&](std::string module) {
    std::string published(published_module(layer, module));
    if (modules.empty() || modules.back() != published) modules.push_back(std::move(published));
  };
  const ExpertTraits& experts = layer.experts;
  const bool has_mlp = experts.router.empty() || experts.is_beside() || !experts.shared.empty() ||
                       (experts.may_be_absent && has_dense_layers);
  for (std::string_view module : kLinearModules)
    if (!module.starts_with(kMlp))
      add(std::string(module));
    else if (has_mlp)
      add(std::string(layer.mlp) + "." + std::string(module.substr(kMlp.size())));
  if (!experts.shared.empty())
    for (std::string_view module : kLinearModules)
      if (module.starts_with(kMlp))
        add(std::string(experts.shared) + "." + std::string(module.substr(kMlp.size())));
  return modules;
}

std::vector<std::string> expert_modules(const LayerTraits& layer) {
  if (layer.experts.router.empty()) return {};
  const std::string module(layer.experts.module);
  return {module + ".gate_up_proj", module + ".down_proj"};
}

std::vector<std::string> adaptable_modules(const LayerTraits& layer, bool has_dense_layers) {
  std::vector<std::string> modules = linear_modules(layer, has_dense_layers);
  for (std::string& module : expert_modules(layer)) modules.push_back(std::move(module));
  return modules;
}

std::vector<std::string> all_linear_modules() {
  std::vector<std::string> modules;
  for (std::string_view module : kLinearModules) {
    modules.emplace_back(module);
    for (const Family* family : families())
      for (const FusedModule& fused : family->layer.fused) {
        const std::string name(fused.name);
        if (fused.parts[0] == module && std::ranges::find(modules, name) == modules.end())
          modules.push_back(name);
      }
  }
  return modules;
}

std::string_view published_module(const LayerTraits& layer, std::string_view module) {
  for (const FusedModule& fused : layer.fused)
    if (std::ranges::find(fused.parts, module) != fused.parts.end()) return fused.name;
  return module;
}

bool computes_as(const Family& one, const Family& other) { return one.layer == other.layer; }

}  // namespace longshore::models
