// What the program `plan` says of a config under several policies, without touching a device.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/policy_plan.h"

namespace longshore::trainer {

// One for each name, the config's own policy where there is none; "all" stands for every policy the
// model allows but `custom`. A `custom` among several takes the config's label keys, the others
// ignore them. Throws ConfigError for a policy that does not suit the model.
std::vector<PolicyPlan> plan_policies(const Config& config, std::vector<std::string> names,
                                      models::Target target);

// A line for each; with a profile the fastest that fits comes first, and what does not fit last.
std::string table(std::vector<const PolicyPlan*> plans);
// Memory, what is alive at its peak, and with a profile time; with `explain` label by label.
std::string details(const PolicyPlan& plan, const std::optional<offload::Hardware>& hardware,
                    bool explain);

// {"plans": [{"policy", "fits", "step_seconds", "mfu", "phases", "memory": {kind: {...}}}]}, times
// with a profile; whole or not at all.
void write_json(const std::vector<PolicyPlan>& plans, const std::filesystem::path& path);

// The config on each profile of configs/hardware, a line for each.
std::string hardware_table(const Config& config);

// The most that a key can have so that the plans fit `hardware`; 0 if nothing does. `key` is
// per_device_batch_size or max_target_length; throws ConfigError for others.
int64_t largest_that_fits(const Config& config, const std::string& key,
                          const offload::Hardware& hardware);

}  // namespace longshore::trainer
