// Windows: how plans work on memory that lives elsewhere. Kernels touch memory of this device only;
// a window is a device operand that stands for a range of host memory, or for a slab whose shards
// lie on several devices. Here windows become temporaries and moves or collectives: brought in
// ahead of the instructions that read them, sent back after those that write them, and gone in
// between.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "offload/collectives.h"
#include "offload/plan.h"

namespace longshore::offload {

struct Window {
  int buffer = -1;    // on the device, as instructions name it
  models::Type type;  // of what it shows
  Operand source;     // the range of host memory, of the same bytes; or this device's shard
  // Where shards are gathered; such windows are only read.
  std::optional<Collective> gather;
};

// A buffer keeps its bytes until this instruction, though nothing uses them: who takes their place
// finds the copy out of them finished.
struct Hold {
  int buffer = -1;
  int until = -1;
};

// How far moves may run ahead of what reads them, and behind what they send, in layers of compute
// instructions. 0 fetches at the moment of use: the least memory, and nothing is hidden. Between
// two uses that are nearer to each other than this, a window stays on the device. For what an
// update of parameters moves, a layer is four updates.
struct Transfers {
  double layers_ahead = 1;
  // Neighbouring parameters that are smaller than this are fetched together.
  int64_t smallest_bytes = int64_t{1} << 20;
};

// Rewrites the plan's instructions; a window's buffer becomes that of its first visit. What goes to
// the host or is reduced over devices from temporaries of the device is held, too. A shard may
// itself be a window on host memory. Throws InternalError where an instruction would read a range,
// through a window or on the host itself, while newer bytes of it are elsewhere.
std::vector<Hold> open_windows(Plan& plan, std::span<const Window> windows,
                               const Transfers& transfers);

}  // namespace longshore::offload
