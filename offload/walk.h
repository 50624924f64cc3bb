// Plans without data: what lanes would do and when, on the virtual clock.
#pragma once

#include <vector>

#include "offload/timeline.h"
#include "offload/virtual_backend.h"

namespace longshore::offload {

// The plans one after the other.
std::vector<Event> walk(const std::vector<const Plan*>& plans, const Hardware& hardware);

}  // namespace longshore::offload
