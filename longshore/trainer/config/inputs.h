// The files and folders that a run reads.
#pragma once

#include "longshore/base/problem_list.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// Adds all keys that name a file or a folder that does not exist, and a dataset_path that nobody
// said to read. Ignores inputs that a run which resumes from its checkpoint does not read any more.
void find_missing_inputs(const Config& config, ProblemList& problems);
// Throws ConfigError for them.
void require_inputs(const Config& config);

// Adds load_parameters_path where it is to bring the model and is not there, whatever the run
// reads.
void find_missing_model(const Config& config, ProblemList& problems);

// Whether the run begins with the weights in load_parameters_path, as far as its config tells: not
// where it may go on from a state that was saved.
bool starts_from_weights(const Config& config);

}  // namespace longshore::trainer
