// A StagedRange lets a plan work on memory that lies elsewhere. Kernels touch the memory of their
// own device only. A staged range is a device operand that stands for a range of host memory, or
// for a bucket whose shards lie on several devices. The functions here turn staged ranges into
// temporaries with moves or collectives: a temporary is filled ahead of the instructions that read
// it, sent back after those that write it, and takes no memory in between.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "longshore/offload/plan/mesh.h"
#include "longshore/offload/plan/place_buffers.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

struct StagedRange {
  int buffer = -1;    // on the device, as instructions name it
  models::Type type;  // of what it shows
  Operand source;     // the range of host memory, of the same bytes; or this device's shard
  // How the shards are gathered, if `source` is one. Such staged ranges are only read.
  std::optional<Collective> gather;
};

struct Transfers {
  // How many layers of compute instructions lie between a fetch and its first use, and how long a
  // buffer that is sent is held. 0 fetches at the moment of use: that takes the least memory and
  // hides nothing. Between two uses that are nearer to each other than this, a staged range stays
  // on the device. For updates of parameters, four updates count as a layer.
  double prefetch_layers = 1;
  // Neighbouring parameters that are smaller than this are fetched together.
  int64_t smallest_bytes = int64_t{1} << 20;
};

// Rewrites the plan's instructions such that they use temporaries in place of staged ranges. The
// first temporary of a staged range is its buffer, further ones are added. Returns what must be
// held: what is in `keep_alives`, the temporaries that are stored, and those of the device that
// other instructions send to the host or to other devices. The shard that a staged range gathers
// may itself be a staged range on host memory. Throws InternalError if an instruction would read a
// range, through a staged range or on the host itself, while newer bytes of it are elsewhere.
std::vector<KeepAlive> insert_staging(Plan& plan, std::span<const StagedRange> staged,
                                      std::span<const KeepAlive> keep_alives,
                                      const Transfers& transfers);

}  // namespace longshore::offload
