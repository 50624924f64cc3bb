// A device that computes nothing and has no memory, but a clock for each lane: plans for any target
// are walked on it by the same executor that trains, so that what it counts is what training will
// take.
#pragma once

#include <memory>

#include "offload/backend.h"
#include "offload/hardware.h"

namespace longshore::offload {

std::unique_ptr<Backend> make_virtual_backend(const Hardware& hardware);

}  // namespace longshore::offload
