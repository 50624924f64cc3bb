// place_buffers() decides when each temporary of a plan is alive, and where it lies.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// A buffer keeps its bytes up to this instruction, although nothing uses them any longer, so that
// the copy out of them has finished before other bytes take their place.
struct KeepAlive {
  int buffer = -1;
  int until = -1;  // instruction
};

// Sets `first`, `last` and `offset` of the plan's temporaries, and the sizes of its arenas. Those
// in `fixed_offsets` lie where another plan left them. Throws InternalError where nothing reads
// what outlives a run.
void place_buffers(Plan& plan, std::span<const KeepAlive> keep_alives,
                   const std::map<int, int64_t>& fixed_offsets);

}  // namespace longshore::offload
