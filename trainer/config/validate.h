// Which values a config may have, each by itself and together.
#pragma once

#include "trainer/config/config.h"

namespace longshore::trainer {

// Throws ConfigError if a value is out of its range or two values contradict each other. For
// configs that were changed after loading.
void validate(const Config& config);

// The two parts of validate(): whether the remat policy goes together with the label keys and with
// auto_micro_batch, and everything else.
void validate_remat(const Config& config);
void validate_but_remat(const Config& config);

}  // namespace longshore::trainer
