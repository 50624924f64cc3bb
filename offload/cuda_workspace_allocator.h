// Serves ATen's CUDA allocations from an op's workspace while the op runs, and at all other times
// from the allocator that ATen used before. All users are on one stream, so memory that an op has
// given back may be handed out again at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longshore::offload {

// What an op's library calls took.
struct WorkspaceUse {
  int64_t peak_bytes = 0;        // of the workspace
  int64_t undeclared_bytes = 0;  // what did not fit and came from ATen's own allocator
};

// From the first call on, ATen allocates through us.
void begin_workspace(std::span<std::byte> workspace);
// Throws InternalError where an allocation is still held, since the next op would use its memory.
WorkspaceUse end_workspace();
// After an op that failed: ATen allocates elsewhere again.
void abandon_workspace();

}  // namespace longshore::offload
