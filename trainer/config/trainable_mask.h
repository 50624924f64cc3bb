// trainable_parameters_mask: which parameters a run trains.
#pragma once

#include "models/model.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// With a mask, freezes the parameters in whose full name no expression of it is found, but leaves
// adapters as they are; without one, changes nothing. Expressions are PCRE2's, matched within fixed
// bounds of time and memory. Throws ConfigError for one that cannot be read, that is found in no
// name, or that exceeds these bounds.
void apply_mask(const Config& config, models::Model& model);

}  // namespace longshore::trainer
