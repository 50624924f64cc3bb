// plan_record() is what a run's plan.json holds: what the run was planned to take, and the machine
// that it was planned on, as pages show them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {

// {"environment": {...}, "memory": as a summary has it but planned, "curve_axis", "curves": {kind:
// what is live over a step}}; with a profile also "hardware" and "step", what its lanes would do.
// `backend` and `processes` are texts for people.
nlohmann::ordered_json plan_record(const RunSpec& spec, const TrainingPlans& plans,
                                   const std::string& backend, int64_t processes);

}  // namespace longshore::trainer
