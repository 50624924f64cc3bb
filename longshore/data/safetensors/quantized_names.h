// Finds weights in few bits among the names of tensors: such a weight has others beside it, whose
// names begin with its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

enum class QuantizedKind : uint8_t {
  bitsandbytes_4_bits,  // NAME, NAME.absmax, NAME.quant_map, NAME.quant_state.bitsandbytes__nf4 or
                        // __fp4; with nested scales also NAME.nested_absmax, NAME.nested_quant_map
  bitsandbytes_int8,    // X.weight, X.SCB, X.weight_format or not
  fp8,                  // X.weight, X.weight_scale_inv
};

// Those of one weight that are there.
struct QuantizedNames {
  QuantizedKind kind = QuantizedKind::bitsandbytes_4_bits;
  std::string weight;
  std::vector<std::string> companions;
};

// Nothing for a tensor that has none of these beside it. Whether all of them are there, and what
// they hold, is not looked at. `contains` says whether there is a tensor of a name.
std::optional<QuantizedNames> quantized_names(
    std::string_view weight, const std::function<bool(std::string_view)>& contains);

// "X." of "X.weight"; nothing of another name.
std::optional<std::string_view> stem_of_weight(std::string_view name);

inline constexpr std::string_view kAbsmax = ".absmax", kQuantMap = ".quant_map",
                                  kNf4State = ".quant_state.bitsandbytes__nf4",
                                  kFp4State = ".quant_state.bitsandbytes__fp4",
                                  kNestedAbsmax = ".nested_absmax",
                                  kNestedQuantMap = ".nested_quant_map";
inline constexpr std::string_view kScb = "SCB", kWeightFormat = "weight_format";
// Those of a whole tensor or of its rows are not read.
inline constexpr std::string_view kScaleInv = "_scale_inv", kOtherScale = "_scale";

}  // namespace longshore::data
