// What the program `plan` says of a config under several policies, without touching a device.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/training_plans.h"

namespace longshore::trainer {

struct PolicyPlan {
  std::string policy;
  TrainingPlans plans;
  MemoryByKind memory;
};

// One for each name, the config's own policy where there is none; "all" stands for every policy the
// model allows but `custom`. A `custom` among several takes the config's label keys, the others
// ignore them. Throws ConfigError for a policy that does not suit the model.
std::vector<PolicyPlan> plan_policies(const Config& config, std::vector<std::string> names,
                                      models::Target target);

std::string table(const std::vector<PolicyPlan>& plans);    // a line for each
std::string details(const PolicyPlan& plan, bool explain);  // memory; with `explain` label by label

// {"plans": [{"policy", "memory": {kind: {...}}}]}; whole or not at all.
void write_json(const std::vector<PolicyPlan>& plans, const std::filesystem::path& path);

}  // namespace longshore::trainer
