// The actions that a config's label keys give to labels.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// The actions in the first `offload_layers` layers, of the labels whose keys are set.
std::map<std::string, offload::Action> actions_in_first_layers(const Config& config);

// The actions in the other layers, if any key gives two actions. There a label whose key gives one
// has that action as well, but what would be offloaded is kept on the device.
std::optional<std::map<std::string, offload::Action>> actions_in_other_layers(const Config& config);

}  // namespace longshore::trainer
