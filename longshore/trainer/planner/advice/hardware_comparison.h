// A config planned on every profile of configs/hardware, under one or several policies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/planner/advice/plan_question.h"
#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {

// A policy on a profile.
struct HardwarePlan {
  std::string hardware, policy;
  std::string answer;  // to the question, as PlanAnswer::cell
  std::optional<PolicyPlan> plan;
  std::string instead;  // why there is no plan; "" if there is one
};

// By profile, and within it in the order of policy_names(config, names). If `names` is {"all"},
// policies that do not suit the model are left out; of others, ConfigError is thrown as by
// plan_policies(). The config's own `hardware` is not read.
std::vector<HardwarePlan> plans_on_all_hardware(const Config& config,
                                                const std::vector<std::string>& names,
                                                const PlanQuestion& question = {});

// A line for each.
std::string table(const std::vector<HardwarePlan>& plans, const PlanQuestion& question = {});

// {"plans": [...], "not_planned": [{"policy", "hardware", "reason"}, ...]}, plans as in
// json_text() of plan_report.h, as a file has it.
std::string json_text(const std::vector<HardwarePlan>& plans, const PlanQuestion& question = {});

}  // namespace longshore::trainer
