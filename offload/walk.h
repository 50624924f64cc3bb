// Runs plans without data, on the virtual clock.
#pragma once

#include <vector>

#include "offload/timeline.h"
#include "offload/virtual_backend.h"

namespace longshore::offload {

// What the lanes would do, and when, if the plans ran one after the other on such hardware. If the
// hardware has a processor cache, the plans have run once before.
std::vector<Event> walk(const std::vector<const Plan*>& plans, const Hardware& hardware);

}  // namespace longshore::offload
