// The order between lanes: which instructions must have finished before another may start.
#pragma once

#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// Fills in `waits` and `awaited` of the instructions of a plan whose buffers have their places.
// Each lane runs its instructions in order, independently of the other lanes. So an instruction
// waits for the last write, on another lane, of the bytes that it reads, and for all earlier uses,
// on other lanes, of the bytes that it writes. Waits that follow from others are left out.
void find_waits(Plan& plan);

}  // namespace longshore::offload
