// A device without memory that computes nothing, but has a clock for each lane. The executor that
// trains also simulates plans for any target on this device, so that the times and bytes that are
// counted are those of training.
#pragma once

#include <memory>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/hardware/hardware.h"

namespace longshore::offload {

std::unique_ptr<Backend> make_virtual_backend(const Hardware& hardware);

}  // namespace longshore::offload
