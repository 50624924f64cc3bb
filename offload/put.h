// put(x, kind) in a traced function: x in that kind of memory, on the way from where it is. Plans
// turn it into moves: what is brought to the device is there while it is used and comes again when
// it is used again; what is sent to the host stays there. The gradient passes through.
#pragma once

#include "models/trace.h"
#include "offload/memory.h"

namespace longshore::offload {

extern const models::Op put_op;  // (x) -> x; its attributes are the MemoryKind

// Device or pinned_host; throws PlanError for others.
models::Var put(models::Var x, MemoryKind kind);

}  // namespace longshore::offload
