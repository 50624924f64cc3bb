// The choice of a run's backend.
#pragma once

#include <memory>
#include <string>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/backends/communicator.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

struct ChosenBackend {
  models::Target target = models::Target::cpu;
  int device = 0;           // the number of the GPU among those that this process sees
  std::string description;  // "cpu (2 threads), since this build has no CUDA backend"
};

// The backend of a node's process number `local_rank`. Looks for a GPU, but does not touch it.
// Throws ConfigError if the config asks for a GPU and there is none, or this build has no CUDA
// backend.
ChosenBackend choose_backend(const Config& config, int64_t local_rank = 0);

// The backend for a chosen target and device. The communicator reaches the other devices, if there
// are any.
std::unique_ptr<offload::Backend> make_backend(
    models::Target target, int device = 0,
    std::shared_ptr<offload::Communicator> communicator = nullptr);

}  // namespace longshore::trainer
