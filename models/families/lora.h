// add_lora() adds an adapter to a program: see lora_config.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/families/lora_config.h"
#include "models/ir/trace.h"

namespace longshore::models {

// An adapter in a program.
struct LoraProduct {
  int64_t rank = 0;
  double scale = 0;

  bool operator==(const LoraProduct&) const = default;
};

// product + scale·(x·Aᵀ)·Bᵀ, with weights of that module in the trace.
Var add_lora(const LoraProduct& adapter, Var x, Var product, std::string_view module);

}  // namespace longshore::models
