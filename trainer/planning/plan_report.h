// The report of the program `plan` on a config under several policies. Touches no device.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/planning/policy_plan.h"

namespace longshore::trainer {

// A line for each plan. If they have times, the fastest plan that fits comes first, and plans that
// do not fit come last.
std::string table(std::vector<const PolicyPlan*> plans);
// The plan's memory, and what is in use at its peak. With a profile also the step's time.
std::string details(const PolicyPlan& plan, const std::optional<offload::Hardware>& hardware);
// What single changes of a named policy's plan would do, each of them tried, which can take
// seconds: those by which it would lack less memory, if it does not fit, and advise()'s.
std::string changes(const PolicyPlan& plan, const offload::Hardware& hardware);
// What happens to each value of the layers, label by label.
std::string explanation(const PolicyPlan& plan);

// {"policy", "config", "hardware", "fits", "step_seconds", "mfu", "tokens_per_second_per_device",
// "phases", "bottleneck", "used_device_bytes", "chosen" (of `auto`), "memory": {kind: {...}}}.
// Without a profile only "policy", "config" and "memory".
nlohmann::ordered_json json(const PolicyPlan& plan);
// Writes {"plans": [...]}. The file appears whole or not at all.
void write_json(const std::vector<PolicyPlan>& plans, const std::filesystem::path& path);

// A line for each profile of configs/hardware, with what the config takes on it.
std::string hardware_table(const Config& config);

}  // namespace longshore::trainer
