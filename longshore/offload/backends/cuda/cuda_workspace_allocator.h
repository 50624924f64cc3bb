// Serves ATen's CUDA allocations from an op's workspace while the op runs, and at all other times
// from the allocator that ATen used before. All users are on one stream, so memory that an op has
// given back may be handed out again at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longshore::offload {

// From the first call on, ATen allocates through us.
void begin_workspace(std::span<std::byte> workspace);
// The bytes that did not fit, which came from ATen's own allocator. Throws InternalError where an
// allocation is still held, since the next op would use its memory.
int64_t end_workspace();
// After an op that failed: ATen allocates elsewhere again.
void abandon_workspace();

}  // namespace longshore::offload
