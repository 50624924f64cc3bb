// GPUs that train together, one for each process, connected by NCCL.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "offload/collectives.h"
#include "offload/communicator.h"

namespace longshore::offload {

// Gives every process the first one's bytes.
using ShareBytes = std::function<std::string(const std::string&)>;

// Along the axes of the mesh, of which `device` is this process's GPU. Every process calls it.
// Collectives are enqueued on their call's stream. Throws Error, with what NCCL says, here and from
// run() where devices cannot reach each other.
std::shared_ptr<Communicator> make_nccl_communicator(const DeviceMesh& mesh, int device,
                                                     const ShareBytes& share);

}  // namespace longshore::offload
