// The CPU as a device. Its memory is counted in two separate pools. Kernels run on the calling
// thread and OpenMP's threads; copies, work for the host and collectives run on a worker thread for
// each lane.
#pragma once

#include <memory>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/backends/communicator.h"

namespace longshore::offload {

// The communicator reaches the other devices; it may be null where there are none.
std::unique_ptr<Backend> make_cpu_backend(models::Target target = models::Target::cpu,
                                          std::shared_ptr<Communicator> communicator = nullptr);

}  // namespace longshore::offload
