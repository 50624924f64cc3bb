#include "longshore/data/safetensors/quantized_names.h"

#include <initializer_list>

namespace longshore::data {

std::optional<std::string_view> stem_of_weight(std::string_view name) {
  constexpr std::string_view kWeight = "weight";
  if (!name.ends_with(kWeight)) return std::nullopt;
  name.remove_suffix(kWeight.size());
  return name.ends_with('.') ? std::optional(name) : std::nullopt;
}

std::optional<QuantizedNames> quantized_names(
    std::string_view weight, const std::function<bool(std::string_view)>& contains) {
  QuantizedNames names{.kind = {}, .weight = std::string(weight), .companions = {}};
  auto add = [&](std::string_view start, std::initializer_list<std::string_view> endings) {
    for (std::string_view ending : endings) {
      std::string name(start);
      name += ending;
      if (contains(name)) names.companions.push_back(std::move(name));
    }
    return !names.companions.empty();
  };
  if (add(weight, {kAbsmax, kQuantMap, kNf4State, kFp4State, kNestedAbsmax, kNestedQuantMap})) {
    names.kind = QuantizedKind::bitsandbytes_4_bits;
    return names;
  }
  const std::optional<std::string_view> stem = stem_of_weight(weight);
  if (!stem) return std::nullopt;
  if (add(*stem, {kScb})) {
    add(*stem, {kWeightFormat});
    names.kind = QuantizedKind::bitsandbytes_int8;
    return names;
  }
  if (add(weight, {kScaleInv, kOtherScale})) {
    names.kind = QuantizedKind::fp8;
    return names;
  }
  return std::nullopt;
}

}  // namespace longshore::data
