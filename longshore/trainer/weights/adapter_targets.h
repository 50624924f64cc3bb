// AdapterTargets says which modules of a model an adapter is for, by the rules of peft's tuners (as
// of 0.21): from the keys target_modules, target_parameters, exclude_modules, layers_to_transform,
// layers_pattern, rank_pattern and alpha_pattern of its adapter_config.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longshore/models/families/family.h"
#include "longshore/models/families/limits.h"
#include "longshore/models/families/lora_config.h"

namespace longshore::trainer {

// Module names as such a key has them: a list, of which one has to be a module's whole name or its
// end after a dot; or a regular expression for the whole name.
struct ModuleNames {
  std::vector<std::string> list;
  std::string expression;  // where there is no list

  bool empty() const { return list.empty() && expression.empty(); }
};

struct AdapterTargets {
  ModuleNames target_modules;  // the expression "all-linear" is a name for all linear modules
  // Whole names, or their ends after a dot: of experts, or a projection's "q_proj.weight".
  std::vector<std::string> target_parameters;
  ModuleNames exclude_modules;
  std::vector<int64_t> layers_to_transform;  // only with a list of targets; empty: all
  std::vector<std::string> layers_pattern;   // what stands before a layer's number; empty: any
  // In the file's order, since the first that matches counts: regular expressions for a module's
  // whole name or its end after a dot.
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  bool patterns_must_match = false;  // each of these, a module that has an adapter
};

// The model that an adapter is for: so many decoder layers of a family, some of which may have no
// experts, and where it reads images, so many of its tower.
struct AdapterBase {
  const models::Family* family = &models::kLlama;
  int layers = 0;
  int64_t experts = 0;
  int tower_layers = 0;
  bool has_dense_layers = false;
  bool has_tied_embeddings = false;
  int64_t vocabulary = models::kMaxVocabulary;

  bool reads_images() const { return tower_layers > 0; }
  // Where it is a matrix of its own, by the name that peft has for it.
  bool may_adapt_head() const { return !has_tied_embeddings && !reads_images(); }
  std::vector<std::string> linear_modules() const {
    return models::linear_modules(family->layer, has_dense_layers);
  }
  std::vector<std::string> adaptable_modules() const {
    return models::adaptable_modules(family->layer, has_dense_layers);
  }
  std::vector<std::string> lora_targets() const {
    return models::lora_targets(family->layer, has_dense_layers);
  }
};

// Whether peft beside transformers 5, where numbered experts have become parameters of all, takes
// every module of that name for theirs: "gate_proj" of Qwen 3 MoE, which a layer without experts
// has too. There it finds the module by its weight among target_parameters alone, for which it
// knows neither dropout nor magnitudes.
bool is_named_as_experts(std::string_view target, const models::ExpertTraits& experts);

// What peft calls a module of the text model ("model.layers.0.self_attn.q_proj"). With images it
// depends on transformers' release: as it is from 4.52 on, and as it was before.
std::vector<std::string> peft_modules(std::string_view module, bool reads_images);

// Sets the modules of `config`, whose rank and alpha are the default: by `targets` alone where
// adapters are alike in all layers, else one by one. Throws a DataError that begins with the key:
// for an expression that is none, is slow to match, or matches nothing and has to; where no module
// is a target; for modules that can have no adapter here, such as lm_head and those of a tower; and
// for adapters of each expert by itself that are not alike in all layers.
void set_targets(const AdapterTargets& targets, const AdapterBase& base,
                 models::LoraConfig& config);

}  // namespace longshore::trainer
