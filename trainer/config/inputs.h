// The files and folders that a run reads.
#pragma once

#include "trainer/config/config.h"

namespace longshore::trainer {

// Throws ConfigError for a key that names a file or a folder which is not there. What a run that
// goes on from its checkpoint no longer reads is not looked for.
void require_inputs(const Config& config);

}  // namespace longshore::trainer
