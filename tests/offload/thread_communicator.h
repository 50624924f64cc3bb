// Ranks as threads of one process, for tests: collectives by plain loops, sums in the order of the
// ranks.
#pragma once

#include <memory>
#include <vector>

#include "longshore/offload/backends/communicator.h"
#include "longshore/offload/plan/mesh.h"

namespace longshore::offload {

// One for each rank of the mesh, by rank; fsdp is the inner axis. They must be used from threads of
// their own, or whoever calls first waits for ever.
std::vector<std::shared_ptr<Communicator>> thread_communicators(const DeviceMesh& mesh);

}  // namespace longshore::offload
