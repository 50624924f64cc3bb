// Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685), as peft's LoraConfig has it: the product
// of a linear layer becomes x·Wᵀ + (alpha / rank)·(x·Aᵀ)·Bᵀ, A [rank, in], B [out, rank]. A starts
// uniform within ±1/sqrt(in), as torch.nn.Linear's weight does, and B at zero, so that training
// starts from the model as it was. rsLoRA (Kalajdzievski 2023, arXiv 2312.03732) scales by
// alpha / sqrt(rank). In training A may read a dropout of x. DoRA (Liu et al. 2024, arXiv
// 2402.09353) trains a magnitude m [out] besides, with which row o of the sum V = W + scale·B·A
// counts m_o / |V_o| times.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::models {

struct LayerTraits;

// One linear layer's adapter.
struct LoraModule {
  int64_t rank = 0;
  double alpha = 0;

  bool operator==(const LoraModule&) const = default;
};

struct LoraConfig {
  int64_t rank = 0;  // 0: no adapter
  double alpha = 8;
  std::vector<std::string> targets;  // last words of modules that have one in every layer; lm_head
  bool rank_stabilized = false;      // rsLoRA
  // Whether each expert's gate, up and down have an adapter by themselves, as servers read them.
  // Else gate and up share their A, and adapters of all experts are one, as peft has them.
  bool per_expert = false;
  // Of training alone: what A reads drops out with this probability, by numbers of that seed.
  double dropout = 0;
  uint64_t dropout_seed = 0;
  bool has_magnitudes = false;  // DoRA
  // The embedding and the head, as far as they train beside the adapters: by their modules' names.
  std::vector<std::string> saved_modules = {};
  // Tokens whose rows of the embedding train beside them, each once; of a head that is the
  // embedding theirs too.
  std::vector<int64_t> trained_tokens = {};
  // Where adapters are not alike in all layers: those that there are, by the full names of modules
  // ("model.layers.0.self_attn.q_proj"). Then rank and alpha are what most may have, and targets
  // are the projections that have one in some layer.
  std::map<std::string, LoraModule, std::less<>> modules = {};

  // By which an adapter's product is multiplied, in float32.
  double scale(const LoraModule& module) const;
  bool operator==(const LoraConfig&) const = default;
};

// The embedding and the head, which saved_modules may name, and targets the head.
inline constexpr const char *kEmbeddingModule = "embed_tokens", *kHeadModule = "lm_head";

// "q_proj" for "self_attn.q_proj", "experts.down_proj" for "mlp.experts.down_proj": what targets
// call a module.
std::string_view lora_target(std::string_view module);

// Whether a target is a module of experts.
bool is_expert_target(std::string_view target);

// What targets call the modules of adaptable_modules(), in their order.
std::vector<std::string> lora_targets(const LayerTraits& layer, bool has_dense_layers = false);
// Those of all families, each once, and the head.
std::vector<std::string> all_lora_targets();

// "model.layers.0.self_attn.q_proj" for layer 0 and "self_attn.q_proj": the name within the text
// model, also where that is a part of another.
std::string lora_module_name(int layer, std::string_view module);

// That name of a module, or a weight's within the text model: without "language_model.".
std::string_view within_text_model(std::string_view name);

// The adapter of the module, by its full name; nothing where it has none.
std::optional<LoraModule> adapter_of(const LoraConfig& config, std::string_view module);

// Weights of adapters are "<module>.lora_A.weight", "<module>.lora_B.weight" and
// "<module>.lora_magnitude_vector": peft's names after "base_model.model.".
std::string lora_a_name(std::string_view module);
std::string lora_b_name(std::string_view module);
std::string lora_magnitudes_name(std::string_view module);
bool is_lora_weight(std::string_view name);
bool is_lora_b(std::string_view name);

// The rows of trained_tokens, by the module's name that has the embedding.
std::string trained_tokens_name(std::string_view embedding_module);
bool is_trained_tokens(std::string_view name);

// Whether the weight of that name trains where there are adapters: theirs, and those of
// saved_modules.
bool trains_with_adapters(const LoraConfig& config, std::string_view name);

}  // namespace longshore::models
