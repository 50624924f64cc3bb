// lora_input() and add_lora() add an adapter to a program: see lora_config.h.
#pragma once

#include <cstdint>
#include <optional>
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

// scale·x·Aᵀ [.., rank], with the module's A as a weight of the trace.
Var lora_input(const LoraProduct& adapter, Var x, std::string_view module);

// product + input·Bᵀ for what lora_input gave, with the module's B as a weight of the trace.
// `saved`: the section that it is of another tensor, where it is.
Var add_lora(Var input, Var product, std::string_view module,
             const std::optional<SavedSection>& saved = {});

}  // namespace longshore::models
