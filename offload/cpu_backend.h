// The CPU as a device: its memory in two separately counted pools, kernels on the calling thread
// (and OpenMP's), copies, work for the host and collectives on a worker thread for each lane.
#pragma once

#include <memory>

#include "offload/backend.h"
#include "offload/communicator.h"

namespace longshore::offload {

// The communicator reaches the other devices, where there are any.
std::unique_ptr<Backend> make_cpu_backend(models::Target target = models::Target::cpu,
                                          std::shared_ptr<Communicator> communicator = nullptr);

}  // namespace longshore::offload
