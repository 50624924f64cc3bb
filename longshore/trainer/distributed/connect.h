// Connects the processes of a launch, and their devices.
#pragma once

#include <memory>

#include "longshore/models/ir/op.h"
#include "longshore/offload/backends/communicator.h"
#include "longshore/offload/plan/mesh.h"
#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

// Those of torchrun by its store, others by MPI. One process, launched by nobody, is a world of its
// own. Throws ConfigError for processes of torchrun that train on the CPU, where it is MPI that
// adds up what they compute, and Error where MPI or the store is not to be had.
std::unique_ptr<World> connect(const Launch& launch, models::Target target);

// How the devices of all processes exchange what plans say: by NCCL, or by MPI on the CPU. Null
// where there is one. `device` is this process's GPU. Every process calls it.
std::shared_ptr<offload::Communicator> connect_devices(World& world,
                                                       const offload::DeviceMesh& mesh,
                                                       models::Target target, int device);

}  // namespace longshore::trainer
