// The parts of an adapter in a program: see lora_config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "longshore/models/families/lora_config.h"
#include "longshore/models/ir/trace.h"

namespace longshore::models {

// An adapter in a program.
struct LoraProduct {
  int64_t rank = 0;
  double scale = 0;

  bool operator==(const LoraProduct&) const = default;
};

// The weights of a module's adapter, in the trace of what it reads or of the module's product:
// A [rank, in], B [out, rank] and magnitudes [out]. `saved`: the section that they are of another
// tensor, where they are.
Var lora_a(const LoraProduct& adapter, Var x, std::string_view module);
Var lora_b(int64_t rank, Var product, std::string_view module,
           const std::optional<SavedSection>& saved = {});
Var lora_magnitudes(Var product, std::string_view module,
                    const std::optional<SavedSection>& saved = {});

// scale·x·Aᵀ [.., rank], which B reads.
Var lora_input(const LoraProduct& adapter, Var x, Var a);

}  // namespace longshore::models
