#include "longshore/offload/backends/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include "longshore/base/cuda_check.h"
#include "longshore/offload/memory/memory.h"

namespace longshore::offload {
namespace {

constexpr int kLeastMajor = 8;  // CMAKE_CUDA_ARCHITECTURES begins there

}  // namespace

CudaDevice find_cuda_device(int64_t local_rank) {
  int count = 0;
  if (cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
    return {.description = std::string("CUDA finds no device: ") + cudaGetErrorString(status)};
  if (count == 0) return {.description = "no GPU is there"};
  if (count > 1 && local_rank >= count)
    return {.description = "process " + std::to_string(local_rank) + " of its node finds " +
                           std::to_string(count) + " GPUs"};
  const int number = count == 1 ? 0 : static_cast<int>(local_rank);
  cudaDeviceProp properties;
  if (cudaError_t status = cudaGetDeviceProperties(&properties, number); status != cudaSuccess)
    return {.description = std::string("the GPU does not answer: ") + cudaGetErrorString(status)};
  if (properties.major < kLeastMajor)
    return {.description = std::string(properties.name) + " is of compute capability " +
                           std::to_string(properties.major) + "." +
                           std::to_string(properties.minor) + ", and kernels are compiled for " +
                           std::to_string(kLeastMajor) + ".0 and later"};
  char bus_id[32] = "";
  check_cuda(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, number),
             "asking for the device's bus id");
  return {.usable = true,
          .number = number,
          .description = std::string(properties.name) + ", " +
                         bytes_text(static_cast<int64_t>(properties.totalGlobalMem)),
          .pci_bus_id = bus_id};
}

}  // namespace longshore::offload
