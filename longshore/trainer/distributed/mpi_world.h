// Processes that mpirun or srun launched, connected by MPI.
#pragma once

#include <memory>

#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

// Throws Error where there is no MPI, or where it says another rank or size than the environment.
std::unique_ptr<World> connect_by_mpi(const Launch& launch);

}  // namespace longshore::trainer
