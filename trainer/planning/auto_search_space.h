// What remat_policy: auto may choose from, beside what the layers do: how a step is cut into
// micro-batches, and where parameters, gradients and optimizer state live. And how a choice is
// written down as a config.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trainer/planning/auto_formula.h"

namespace longshore::trainer {

inline constexpr const char* kChosen = "auto";  // the origin of keys that were chosen

// Whether somebody set the key, or it was chosen before.
bool is_set(const Config& config, const char* key);

// Writes that down as chosen, where it is not the key's value anyway.
template <class T>
void choose_value(Config& config, const char* key, T Config::*member, const T& value) {
  if (config.*member == value) return;
  config.*member = value;
  config.origins[key] = kChosen;
}

// Each way to cut a step into micro-batches with each combination of homes, all planned under the
// policy `full`. Keys that are set stay. Throws ConfigError where a label key does not suit the
// model.
std::vector<BasePlan> base_plans(const Config& config, models::Target target,
                                 const offload::Hardware& hardware);

// The keys whose other values are searched.
std::set<std::string> searched_keys(const Config& config);

// The number of layers that a config sets to be the first; none where it is to be found.
std::optional<int> first_layers_set(const Config& config);

// As configs are written down, without `auto`: a split as the policy `custom`, and a base under a
// named policy.
Config split_config(const LayerSplit& split);
Config named_config(const Config& base, const std::string& policy);

}  // namespace longshore::trainer
