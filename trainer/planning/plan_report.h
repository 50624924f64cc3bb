// What the program `plan` says of a config under several policies, without touching a device.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/planning/policy_plan.h"

namespace longshore::trainer {

// The config's own policy where `names` is empty; every policy but `custom` where it is {"all"}.
std::vector<std::string> policy_names(const Config& config, const std::vector<std::string>& names);

// A plan for each of policy_names(), with advice where it is one alone. Where all policies are
// asked for, those that do not suit the model are left out. Throws ConfigError as plan_policy()
// does.
std::vector<PolicyPlan> plan_policies(const Config& config, const std::vector<std::string>& names,
                                      models::Target target);

// A line for each; with a profile the fastest that fits comes first, and what does not fit last.
std::string table(std::vector<const PolicyPlan*> plans);
// Memory, and what is in use when most of it is; with a profile the step's time and advice.
std::string details(const PolicyPlan& plan, const std::optional<offload::Hardware>& hardware);
// What becomes of each value of the layers, label by label.
std::string explanation(const PolicyPlan& plan);

// {"policy", "fits", "step_seconds", "mfu", "phases", "bottleneck", "memory": {kind: {...}}}, times
// with a profile.
nlohmann::ordered_json json(const PolicyPlan& plan);
// {"plans": [...]}; whole or not at all.
void write_json(const std::vector<PolicyPlan>& plans, const std::filesystem::path& path);

// The config on each profile of configs/hardware, a line for each.
std::string hardware_table(const Config& config);

// The most that a key can have so that the plans fit `hardware`; 0 if nothing does. `key` is
// per_device_batch_size or max_target_length; throws ConfigError for others.
int64_t largest_that_fits(const Config& config, const std::string& key,
                          const offload::Hardware& hardware);

}  // namespace longshore::trainer
