// What of this process is in physical memory.
#pragma once

#include <cstdint>

namespace longshore::offload {

int64_t resident_bytes();       // now
int64_t peak_resident_bytes();  // at most so far

}  // namespace longshore::offload
