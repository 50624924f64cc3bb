// Making the profile of the machine at hand.
#pragma once

#include <functional>
#include <string>

#include "offload/backend.h"
#include "offload/hardware.h"

namespace longshore::trainer {

// Runs every kernel that training steps of small and middling decoders use, on its own and at
// several sizes, and copies of several sizes both ways, alone and together. Of timings the quickest
// counts. Takes some minutes; `say` is told what is measured.
offload::Hardware measure_hardware(offload::Backend& backend, const std::string& name,
                                   const std::function<void(const std::string&)>& say);

}  // namespace longshore::trainer
