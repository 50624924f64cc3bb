// Our custom kernels for GPUs, emulated on the CPU: what their host side decides, and their bodies,
// by the headers in longshore/models/ops/ that their .cu files include; the threads by
// serial_group.h and fiber_group.h, products by ATen. Ops' records (op_records.h) say how.
#pragma once

#include "longshore/models/ir/op.h"

namespace longshore::models {

// How many threads a block has, whatever a body asks for, and who goes first.
enum class Emulated {
  by_32,   // one after the other, phase by phase
  by_256,  // in reverse
  ahead,   // 64, each as far as it can before the next
  behind,  // in reverse
};

// One for each.
struct EmulatedRuns {
  using Run = void (*)(const KernelCall&);

  Run by_32 = nullptr, by_256 = nullptr, ahead = nullptr, behind = nullptr;

  Run of(Emulated emulated) const {
    switch (emulated) {
      case Emulated::by_32:
        return by_32;
      case Emulated::by_256:
        return by_256;
      case Emulated::ahead:
        return ahead;
      case Emulated::behind:
        break;
    }
    return behind;
  }
};

// Its `run` is null where the op has no kernel of our own. It computes on the CPU: calls of it say
// Target::reference.
Kernel emulated_kernel(const Op& op, Emulated emulated);

}  // namespace longshore::models
