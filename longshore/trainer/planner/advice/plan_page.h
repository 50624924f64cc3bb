// plan_page() shows plans as a page: what each policy takes, what memory holds over a step, what
// the lanes would do.
#pragma once

#include <string>
#include <vector>

#include "longshore/trainer/planner/advice/plan_question.h"
#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {

// A page in one file. `advice` is a text for each plan, "" where there is none.
std::string plan_page(const std::vector<PolicyPlan>& plans, const CostQuestion& question,
                      const std::vector<std::string>& advice);

}  // namespace longshore::trainer
