// find_cuda_device() finds the NVIDIA GPU that a process uses.
#pragma once

#include <cstdint>
#include <string>

namespace longshore::offload {

struct CudaDevice {
  bool usable = false;
  int number = 0;
  std::string description;      // "NVIDIA H200, 139.8 GiB", or why there is none
  std::string pci_bus_id = "";  // "0000:65:00.0"
};

// The GPU of process number `local_rank` of a node. The process may see all of the node's GPUs, or
// its own alone.
CudaDevice find_cuda_device(int64_t local_rank = 0);

}  // namespace longshore::offload
