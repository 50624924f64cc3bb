// The hardware profile that a config names.
#pragma once

#include <optional>
#include <string>

#include "offload/hardware/hardware.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// The profile that the key `hardware` names, if it is set, as one of the mesh's devices sees it.
// Its target is cuda_composed if the profile is a GPU's and `backend` is cuda_composed. Throws
// ConfigError as read_hardware() does, and if missing_in() finds something.
std::optional<offload::Hardware> named_hardware(const Config& config);

// The key of the profile without which it cannot time this config: how fast the mesh's devices
// reach each other, or how fast they compute in the config's dtype; and why it is needed. "" if
// nothing is missing.
std::string missing_in(const offload::Hardware& hardware, const Config& config);

}  // namespace longshore::trainer
