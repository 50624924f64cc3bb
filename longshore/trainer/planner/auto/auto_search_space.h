// The choices of remat_policy: auto other than the assignments of layers: how a step is cut into
// micro-batches, and where parameters, gradients and optimizer state live. Also the configs that
// stand for choices.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "longshore/trainer/planner/auto/auto_formula.h"

namespace longshore::trainer {

inline constexpr const char* kChosen = "auto";  // the origin of keys whose value was chosen

// Whether the key has been set by the user or chosen before.
bool is_set(const Config& config, const char* key);

// Sets the key and marks it as chosen, unless it has that value already.
template <class T, class Value>
void choose_value(Config& config, const char* key, T Config::*member, const Value& value) {
  if (config.*member == value) return;
  config.*member = value;
  config.origins[key] = kChosen;
}

// The keys that were chosen, with their values as a config has them.
std::vector<std::pair<std::string, std::string>> chosen_keys(const Config& config);

// Each cut of a step into micro-batches with each combination of homes, all planned under the
// policy `full`. Values of keys that were set are kept. Throws ConfigError if a label key does not
// suit the model.
std::vector<BasePlan> base_plans(const RunSpec& spec);

// Whether parameters and optimizer state alone fit with some of the homes that base_plans() plans:
// if not, no plan does. Throws ConfigError as base_plans() does.
bool may_fit(const RunSpec& spec);

// The keys whose other values are searched.
std::set<std::string> searched_keys(const Config& config);

// The number of first layers if the config sets it.
std::optional<int> first_layers_set(const Config& config);

// The config of a split, whose policy is `custom`, and that of a base under a named policy.
Config split_config(const LayerSplit& split);
Config named_config(const Config& base, const std::string& policy);

}  // namespace longshore::trainer
