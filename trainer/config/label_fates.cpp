#include "trainer/config/label_fates.h"

namespace longshore::trainer {

using offload::Fate;

std::map<std::string, Fate> fates_in_first_layers(const Config& config) {
  std::map<std::string, Fate> fates;
  for (const auto& [label, texts] : config.label_fates)
    fates[label] = offload::fate_named(texts[0]);
  return fates;
}

std::optional<std::map<std::string, Fate>> fates_in_other_layers(const Config& config) {
  bool has_second_fate = false;
  std::map<std::string, Fate> fates = fates_in_first_layers(config);
  for (auto& [label, fate] : fates) {
    const std::vector<std::string>& texts = config.label_fates.at(label);
    if (texts.size() == 2) {
      fate = offload::fate_named(texts[1]);
      has_second_fate = true;
    } else if (fate == Fate::offload) {
      fate = Fate::keep;
    }
  }
  return has_second_fate ? std::optional(std::move(fates)) : std::nullopt;
}

}  // namespace longshore::trainer
