// check_cuda() throws what the CUDA runtime reports as an error.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "longshore/base/error.h"

namespace longshore {

// Throws Error: "CUDA: <what>: <CUDA's own words>".
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // resets the error: it is reported here, not by the next launch
  throw Error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

}  // namespace longshore
