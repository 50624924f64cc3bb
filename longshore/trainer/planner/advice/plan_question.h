// A PlanQuestion asks `plan` for more than a plan of the config: how large a batch or row fits, on
// how few devices it fits, and what training then costs.
#pragma once

#include <string>

#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/planner/advice/training_cost.h"

namespace longshore::trainer {

struct PlanQuestion {
  std::string largest;          // a key of require_key_of_largest(); "": not asked
  bool fewest_devices = false;  // not together with `largest`
  CostQuestion cost;

  bool changes_config() const { return !largest.empty() || fewest_devices; }
};

struct PlanAnswer {
  bool is_found = true;
  RunSpec spec;      // what to plan: with what was found, or as it was
  std::string cell;  // "4096", "none"
  std::string text;  // "the largest max_target_length that fits is 4096"; "" if nothing was asked
};

// Of a run that has a profile, if something is asked.
PlanAnswer answer(const PlanQuestion& question, const RunSpec& spec);

}  // namespace longshore::trainer
