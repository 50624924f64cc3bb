// An NVIDIA GPU: four streams (compute, one for each direction of copies, and work for the host),
// ordered by events alone; device and pinned memory of exact size. Kernels that call ATen have its
// allocations served from their workspace.
#pragma once

#include <memory>
#include <string>

#include "offload/backend.h"

namespace longshore::offload {

struct CudaDevice {
  bool usable = false;
  std::string description;      // "NVIDIA H200, 139.8 GiB", or why there is none
  std::string pci_bus_id = "";  // "0000:65:00.0"
};

CudaDevice find_cuda_device();
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace longshore::offload
