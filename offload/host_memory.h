// What the host can still give, and what this process has of it.
#pragma once

#include <cstdint>

namespace longshore::offload {

// The kernel's estimate of memory available without swapping, within the process's control group.
int64_t available_host_bytes();

// Of this process, in physical memory; -1 where the kernel does not say.
int64_t resident_bytes();       // now
int64_t peak_resident_bytes();  // at most so far

}  // namespace longshore::offload
