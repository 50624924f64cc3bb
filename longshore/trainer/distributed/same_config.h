// require_same_config() checks that all processes of a run were told the same, and made the same of
// it.
#pragma once

#include "longshore/trainer/config/config.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

// Throws a ConfigError with the first key that differs, or where devices are of another kind. Every
// process calls it.
void require_same_config(const Config& config, models::Target target, World& world);

}  // namespace longshore::trainer
