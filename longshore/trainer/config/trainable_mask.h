// trainable_parameters_mask, which selects the parameters that a run trains.
#pragma once

#include "longshore/models/ir/model.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// If there is a mask, freezes all parameters whose full name matches no expression of it, except
// adapters. Expressions are PCRE2's and may match anywhere in a name, within fixed bounds of time
// and memory. Throws ConfigError for an expression that is not valid, matches no name, or exceeds
// these bounds.
void apply_mask(const Config& config, models::Model& model);

}  // namespace longshore::trainer
