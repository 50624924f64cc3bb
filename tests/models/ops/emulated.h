// Makes the emulated runs that ops' records have, of their kernels' host sides and bodies.
#pragma once

#include "tests/models/emulated_kernels.h"
#include "tests/models/fiber_group.h"
#include "tests/models/serial_group.h"

namespace longshore::models {

template <Emulated emulated>
auto launcher() {
  if constexpr (emulated == Emulated::by_32)
    return SerialLauncher(32, PlayOrder::ascending);
  else if constexpr (emulated == Emulated::by_256)
    return SerialLauncher(256, PlayOrder::descending);
  else if constexpr (emulated == Emulated::ahead)
    return FiberLauncher(64, PlayOrder::ascending);
  else
    return FiberLauncher(64, PlayOrder::descending);
}

// A launch as host sides are given it.
template <Emulated emulated, class Arguments>
void emulate_launch(const Arguments& arguments, void*) {
  launch(arguments, launcher<emulated>());
}

template <class Run, Emulated emulated>
void emulate(const KernelCall& call) {
  Run{}.template operator()<emulated>(call);
}

// By a lambda, []<Emulated emulated>(const KernelCall& call) {...}, that captures nothing.
template <class Run>
constexpr EmulatedRuns emulated_runs(Run) {
  return {.by_32 = emulate<Run, Emulated::by_32>,
          .by_256 = emulate<Run, Emulated::by_256>,
          .ahead = emulate<Run, Emulated::ahead>,
          .behind = emulate<Run, Emulated::behind>};
}

// Of a kernel that is one launch, of what `arguments` makes of the call.
template <auto arguments>
constexpr EmulatedRuns emulated_launch() {
  return emulated_runs([]<Emulated emulated>(const KernelCall& call) {
    launch(arguments(call), launcher<emulated>());
  });
}

}  // namespace longshore::models
