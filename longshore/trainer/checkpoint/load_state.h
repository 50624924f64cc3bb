// load_state() reads a run's state from a checkpoint: the way back from write_checkpoint.
#pragma once

#include <string>

#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/checkpoint/checkpoint.h"

namespace longshore::trainer {

// Weights and moments, into the copies where they live, allocated where they are missing. Where the
// checkpoint has adapters alone, the weights that they are on come from load_parameters_path or the
// seed. Says what it read. Throws as load_parameters and read_optimizer_state do.
std::string load_state(const Checkpoint& checkpoint, const SavedModel& saved,
                       offload::Arguments& arguments);

}  // namespace longshore::trainer
