// put(x, kind) in a program moves x to that kind of memory. A value that is brought to the
// device is there while it is used, and is brought again for a later use; a value that is sent to
// the host stays there. The gradient passes through unchanged.
#pragma once

#include "longshore/models/ir/memory_kind.h"
#include "longshore/models/ir/trace.h"

namespace longshore::models {

extern const Op put_op;  // (x) -> x; its attributes are the MemoryKind

// `kind` is device or pinned_host; throws UsageError for others.
Var put(Var x, MemoryKind kind);

}  // namespace longshore::models
