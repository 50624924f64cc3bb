// reference_costs() says what each kind of reference would take of a preference's plan.
#pragma once

#include <string>

#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {

// A line for each that suits the config, planned by itself: the memory of its plan, and with a
// profile its step's time. "" where the objective has no reference.
std::string reference_costs(const PolicyPlan& plan);

}  // namespace longshore::trainer
