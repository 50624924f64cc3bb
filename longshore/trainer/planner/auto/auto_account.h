// The account of a choice of remat_policy: auto, for the user.
#pragma once

#include <string>

#include "longshore/trainer/planner/auto/auto_policy.h"

namespace longshore::trainer {

// "full", or "first 24 layers: ...", followed by the states that live on the host.
std::string summary(const Config& config);

// The choice, its keys as a config has them, and why other plans lost.
std::string text(const AutoChoice& choice);

}  // namespace longshore::trainer
