// An NVIDIA GPU. It has five streams (compute, one for each direction of copies, work for the host,
// and collectives), which only events order, and allocates device and pinned memory of exact size.
// What ATen allocates while a kernel runs comes from the kernel's workspace.
#pragma once

#include <memory>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/backends/communicator.h"

namespace longshore::offload {

// For plans of `target`: cuda or cuda_composed. The communicator reaches the other devices; it may
// be null where there are none.
std::unique_ptr<Backend> make_cuda_backend(int device = 0,
                                           std::shared_ptr<Communicator> communicator = nullptr,
                                           models::Target target = models::Target::cuda);

}  // namespace longshore::offload
