// Order between lanes: which instructions must have finished before another may start.
#pragma once

#include "offload/plan.h"

namespace longshore::offload {

// Fills `waits` and `awaited` of a plan whose buffers have their places. Lanes run on their own,
// each in order, so whoever touches bytes that another lane used before waits for it: for what it
// reads, until it was written; for what it writes over, until it was read.
void find_waits(Plan& plan);

}  // namespace longshore::offload
