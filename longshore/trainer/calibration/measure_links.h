// measure_links() measures how fast the link between a device and its host copies.
#pragma once

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/hardware/hardware.h"

namespace longshore::trainer {

// Sets the rates of the link to and from the device, for copies of several sizes, and the fraction
// of them that is left while the other direction is busy.
void measure_links(offload::Backend& backend, offload::Hardware& hardware);

}  // namespace longshore::trainer
