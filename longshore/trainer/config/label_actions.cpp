#include "longshore/trainer/config/label_actions.h"

namespace longshore::trainer {

using offload::Action;

std::map<std::string, Action> actions_in_first_layers(const Config& config) {
  std::map<std::string, Action> actions;
  for (const auto& [label, texts] : config.label_actions)
    actions[label] = offload::action_named(texts[0]);
  return actions;
}

std::optional<std::map<std::string, Action>> actions_in_other_layers(const Config& config) {
  bool has_second_action = false;
  std::map<std::string, Action> actions = actions_in_first_layers(config);
  for (auto& [label, action] : actions) {
    const std::vector<std::string>& texts = config.label_actions.at(label);
    if (texts.size() == 2) {
      action = offload::action_named(texts[1]);
      has_second_action = true;
    } else if (action == Action::offload) {
      action = Action::keep;
    }
  }
  return has_second_action ? std::optional(std::move(actions)) : std::nullopt;
}

}  // namespace longshore::trainer
