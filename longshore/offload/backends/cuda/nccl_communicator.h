// GPUs that train together, one for each process, connected by NCCL.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "longshore/offload/backends/communicator.h"
#include "longshore/offload/plan/mesh.h"

namespace longshore::offload {

// Gives every process the first one's bytes.
using ShareBytes = std::function<std::string(const std::string&)>;

// Communicates along the axes of the mesh; `device` is this process's GPU. Every process calls it.
// Each kind of collective runs once here, so that NCCL takes its device memory before plans are
// compared with what is free. Collectives are enqueued on their call's stream. This function and
// run() throw Error, with NCCL's message, where devices cannot reach each other.
std::shared_ptr<Communicator> make_nccl_communicator(const DeviceMesh& mesh, int device,
                                                     const ShareBytes& share);

}  // namespace longshore::offload
