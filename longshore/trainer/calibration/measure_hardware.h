// Measures the profile of the machine at hand.
#pragma once

#include <string>

#include "longshore/base/log.h"
#include "longshore/offload/backends/backend.h"
#include "longshore/offload/hardware/hardware.h"

namespace longshore::trainer {

// Runs every kernel of the training steps of small and medium decoders alone and at several sizes,
// and copies of several sizes in each direction, alone and together. The quickest of several
// timings counts. Takes some minutes; `log` gets a line on each thing that is measured.
offload::Hardware measure_hardware(offload::Backend& backend, const std::string& name,
                                   const Log& log);

}  // namespace longshore::trainer
