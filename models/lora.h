// Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685), as peft's LoraConfig has it: the product
// of a linear layer becomes x·Wᵀ + (alpha / rank)·(x·Aᵀ)·Bᵀ, A [rank, in], B [out, rank]. A starts
// uniform within ±1/sqrt(in), as torch.nn.Linear's weight does, and B at zero, so that training
// starts from the model as it was.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/trace.h"

namespace longshore::models {

struct LoraConfig {
  int64_t rank = 0;                  // 0: no adapter
  double alpha = 8;                  // of the scale alpha / rank, by which is multiplied in float32
  std::vector<std::string> targets;  // names out of kLoraTargets

  double scale() const { return alpha / static_cast<double>(rank); }
  bool operator==(const LoraConfig&) const = default;
};

// The projections of a decoder layer, as Hugging Face names the modules.
inline constexpr std::array<std::string_view, 7> kLoraTargets{
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};

// Whether the linear layer of that name, "self_attn.q_proj", has an adapter.
bool is_adapted(const LoraConfig& config, std::string_view module);

// Weights of adapters are "<module>.lora_A.weight" and "<module>.lora_B.weight": peft's names
// after "base_model.model.".
std::string lora_a_name(std::string_view module);
std::string lora_b_name(std::string_view module);
bool is_lora_weight(std::string_view name);

// product + scale·(x·Aᵀ)·Bᵀ, with weights of that module in the trace.
Var add_lora(const LoraConfig& config, Var x, Var product, std::string_view module);

}  // namespace longshore::models
