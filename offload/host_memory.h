// What the host can still give.
#pragma once

#include <cstdint>

namespace longshore::offload {

// The kernel's estimate of memory available without swapping, within the process's control group.
int64_t available_host_bytes();

}  // namespace longshore::offload
