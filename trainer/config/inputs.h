// The files and folders that a run reads.
#pragma once

#include "trainer/config/config.h"

namespace longshore::trainer {

// Throws ConfigError for a key that names a file or a folder that does not exist. Ignores inputs
// that a run which resumes from its checkpoint does not read any more.
void require_inputs(const Config& config);

// Whether the run begins with the weights in load_parameters_path, as far as its config tells: not
// where it may go on from a state that was saved.
bool starts_from_weights(const Config& config);

}  // namespace longshore::trainer
