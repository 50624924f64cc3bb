// The files and folders that a run reads.
#pragma once

#include "trainer/config/config.h"

namespace longshore::trainer {

// Throws ConfigError for all keys that name a file or a folder that does not exist, and for a
// dataset_path that nobody said to read. Ignores inputs that a run which resumes from its
// checkpoint does not read any more.
void require_inputs(const Config& config);

// The same for load_parameters_path alone, whatever the run reads.
void require_weights_folder(const Config& config);

// Whether the run begins with the weights in load_parameters_path, as far as its config tells: not
// where it may go on from a state that was saved.
bool starts_from_weights(const Config& config);

}  // namespace longshore::trainer
