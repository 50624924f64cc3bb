// The CPU as a device: its memory in two separately counted pools, kernels on the calling thread
// (and OpenMP's), copies and work for the host on a worker thread for each lane.
#pragma once

#include <memory>

#include "offload/backend.h"

namespace longshore::offload {

std::unique_ptr<Backend> make_cpu_backend(models::Target target = models::Target::cpu);

}  // namespace longshore::offload
