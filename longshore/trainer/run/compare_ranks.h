// compare_ranks() compares the step times of a run's processes.
#pragma once

#include <optional>

#include "longshore/trainer/distributed/world.h"
#include "longshore/trainer/run/summary.h"

namespace longshore::trainer {

// By the steps that each has measured; nothing where there is one process, or no step. All
// processes call it.
std::optional<RankFigures> compare_ranks(const StepFigures& steps, World& world);

}  // namespace longshore::trainer
