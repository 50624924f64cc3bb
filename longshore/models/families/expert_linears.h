// expert_gate_up() and expert_down() are the linear layers of a layer's experts, with their
// adapters. M rows, C width, F an expert's width.
#pragma once

#include <map>
#include <string>

#include "longshore/models/families/decoder_config.h"
#include "longshore/models/families/lora.h"
#include "longshore/models/ir/trace.h"

namespace longshore::models {

// A layer's adapters by module, "mlp.experts.down_proj".
using Adapters = std::map<std::string, LoraProduct>;

// Rows [M,..], those of each expert one after the other, and where they end, i32 [E].
struct ExpertRows {
  Var rows, ends;
};

struct GateUp {
  Var gate, up;  // [M,F]
};

// Of rows [M,C].
GateUp expert_gate_up(const DecoderConfig& c, const Adapters& adapters, const ExpertRows& x);

// [M,F] -> [M,C]
Var expert_down(const DecoderConfig& c, const Adapters& adapters, const ExpertRows& x);

}  // namespace longshore::models
