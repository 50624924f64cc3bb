// The labels that decoder layers put on their values: MaxText's names at MaxText's points. A label
// is an attribute of a value; policies speak of labels only.
#pragma once

#include <array>
#include <string_view>

namespace longshore::models {

struct LabelInfo {
  std::string_view name;
  std::string_view meaning;
};

// Layers that make several of them in one product would call it qkv_proj or mlpwi, which is also
// the name where there is no gate; policies know these names too. Layers of a vision tower have the
// same labels, but for those of experts (moe_).
inline constexpr std::array kDecoderLabels{
    LabelInfo{"decoder_layer_input", "the layer's input"},
    LabelInfo{"query_proj", "queries as attention reads them (normed, rotated, scaled)"},
    LabelInfo{"key_proj", "keys as attention reads them"},
    LabelInfo{"value_proj", "values as attention reads them"},
    LabelInfo{"context", "attention's output with its log-sum-exp"},
    LabelInfo{"out_proj", "the output projection's result"},
    LabelInfo{"mlpwi_0", "the MLP's gate, before its activation"},
    LabelInfo{"mlpwi_1", "the MLP's linear branch"},
    LabelInfo{"mlpwo", "the MLP's result"},
    LabelInfo{"moe_routing", "which experts each token goes to, and their weights"},
    LabelInfo{"moe_grouping", "which row of the experts' products is whose"},
    LabelInfo{"moe_permuted", "the rows that experts read"},
    LabelInfo{"moe_mlpwi_0", "the experts' gates, before their activation"},
    LabelInfo{"moe_mlpwi_1", "the experts' linear branches"},
    LabelInfo{"moe_mlpwo", "the experts' results"},
};

}  // namespace longshore::models
