// memory_suggestions() finds changes of a config that make its plan smaller.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {

// "remat_policy=full context=": what a command line has to set that turns one config into the
// other; without the keys in `searched`, and without labels if the policy is one of them.
std::string changed_settings(const Config& before, const Config& after,
                             const std::set<std::string>& searched = {});

// A line of memory_suggestions(): the setting, the memory that a config with it needs, and a
// remark.
std::string helpful_line(const std::string& setting, const MemoryByKind& memory,
                         models::Target target, const MemoryLimits& limits,
                         const std::string& remark);

// The changes of keys with which a run's plan would lack less memory on the profile's machine, each
// of them tried: of a number, the largest value that fits, if one does. Returns a line for each,
// with the memory that it would need and whether it would fit, first those that fit; and where none
// alone makes room for the same model, several that do so together, if some are found. The last
// line has the fewest devices that are enough, if the config names their profile. Leaves out the
// keys in `searched`.
std::string memory_suggestions(const RunSpec& spec, const std::set<std::string>& searched = {});

// The same for an unknown machine: the changes with which the plan would need less memory.
std::string changes_that_take_less(const RunSpec& spec);

// Returns "" if the backend has the memory of the plans, and the host that of all its devices. Else
// returns what they need and what is available by memory kind, and the changes of keys that help,
// each of them tried.
std::string explain_out_of_memory(const RunSpec& spec, const TrainingPlans& plans,
                                  offload::Backend& backend);

}  // namespace longshore::trainer
