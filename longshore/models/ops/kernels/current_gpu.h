// The GPU of the calling thread, for sources of builds with CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "longshore/base/cuda_check.h"

namespace longshore::models {

// Throws Error.
inline int current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  return device;
}

// 10 times major and minor: 90 for an H100. Throws Error.
inline int compute_capability(int device) {
  int major = 0, minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "asking for the compute capability");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
             "asking for the compute capability");
  return 10 * major + minor;
}

}  // namespace longshore::models
