// An NVIDIA GPU: five streams (compute, one for each direction of copies, work for the host, and
// collectives), ordered by events alone; device and pinned memory of exact size. Kernels that call
// ATen have its allocations served from their workspace.
#pragma once

#include <memory>
#include <string>

#include "offload/backend.h"
#include "offload/communicator.h"

namespace longshore::offload {

struct CudaDevice {
  bool usable = false;
  int number = 0;
  std::string description;      // "NVIDIA H200, 139.8 GiB", or why there is none
  std::string pci_bus_id = "";  // "0000:65:00.0"
};

// That of a node's process number `local_rank`, which may see all of the node's GPUs or its own
// alone.
CudaDevice find_cuda_device(int64_t local_rank = 0);
// The communicator reaches the other devices, where there are any.
// For plans of that target: cuda or cuda_composed.
std::unique_ptr<Backend> make_cuda_backend(int device = 0,
                                           std::shared_ptr<Communicator> communicator = nullptr,
                                           models::Target target = models::Target::cuda);

}  // namespace longshore::offload
