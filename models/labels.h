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

inline constexpr std::array kLabels{
    LabelInfo{"decoder_layer_input", "what enters the layer: the scan's carry"},
    LabelInfo{"query_proj", "queries as the attention kernel reads them (normed, rotated, scaled)"},
    LabelInfo{"key_proj", "keys as the attention kernel reads them"},
    LabelInfo{"value_proj", "values as the attention kernel reads them"},
    LabelInfo{"qkv_proj", "the three in one matmul, where a model fuses them"},
    LabelInfo{"context", "the attention kernel's output, with its log-sum-exp"},
    LabelInfo{"out_proj", "the attention block's output projection"},
    LabelInfo{"mlpwi_0", "the gate projection, before the activation"},
    LabelInfo{"mlpwi_1", "the up projection"},
    LabelInfo{"mlpwi", "gate and up in one matmul, where a model fuses them"},
    LabelInfo{"mlpwo", "the down projection"},
};

}  // namespace longshore::models
