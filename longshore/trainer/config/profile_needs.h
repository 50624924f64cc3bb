// missing_in() says what a hardware profile lacks that a config's plans need.
#pragma once

#include <string>

#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// The key of the profile without which it cannot time this config: how fast the mesh's devices
// reach each other, or how fast they compute in the config's dtype; and why it is needed. "" if
// nothing is missing.
std::string missing_in(const offload::Hardware& hardware, const Config& config);

}  // namespace longshore::trainer
