// The report of the program `plan` on a config under several policies. Touches no device.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/planner/advice/plan_question.h"
#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {

// What training by a plan costs, which has a profile.
TrainingCost training_cost(const PolicyPlan& plan, const CostQuestion& question);

// A line for each plan. Plans that do not fit come last; of those that fit, if they have times, the
// fastest comes first.
std::string table(std::vector<const PolicyPlan*> plans, const CostQuestion& question = {});
// The plan's memory, what is in use at its peak, and whether it fits where that is known. With a
// profile also the step's time, and what training costs.
std::string details(const PolicyPlan& plan, const CostQuestion& question = {});
// What single changes of a plan would do, each of them tried, which can take seconds: those by
// which it would lack less memory, if it does not fit, and advise()'s. Of a plan with a profile.
std::string changes(const PolicyPlan& plan);
// What happens to each value of the layers, label by label.
std::string explanation(const PolicyPlan& plan);

// {"policy", "config", "devices", "per_device_batch_size", "max_target_length", "fits" (where that
// is known), "memory": {kind: {...}}}; with a profile also "hardware", "hardware_source",
// "step_seconds", "mfu", "tokens_per_second_per_device", "phases", "bottleneck",
// "used_device_bytes", "chosen" (of `auto`), and of what is asked "training_days", "training_cost"
// and "tokens_per_money".
nlohmann::ordered_json json(const PolicyPlan& plan, const CostQuestion& question = {});
// {"plans": [...]}, as a file has it.
std::string json_text(const std::vector<PolicyPlan>& plans, const CostQuestion& question = {});

}  // namespace longshore::trainer
