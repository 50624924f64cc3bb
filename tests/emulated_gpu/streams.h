// Handles of the CUDA runtime's as the emulated GPU has them.
#pragma once

#include <driver_types.h>

#include "tests/emulated_gpu/device.h"

namespace longshore::emulated {

inline Stream* stream_of(cudaStream_t handle) {
  return handle ? reinterpret_cast<Stream*>(handle) : Device::get().default_stream();
}

}  // namespace longshore::emulated
