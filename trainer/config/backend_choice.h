// Which backend a run uses, and why.
#pragma once

#include <memory>
#include <string>

#include "offload/backend.h"
#include "offload/communicator.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

struct ChosenBackend {
  models::Target target = models::Target::cpu;
  int device = 0;           // of the GPUs that this process sees
  std::string description;  // "cpu (2 threads), since this build has no CUDA backend"
};

// For a node's process number `local_rank`. Throws ConfigError when `backend: cuda` asks for what
// is not there. Makes nothing: a GPU is looked for, not touched.
ChosenBackend choose_backend(const Config& config, int64_t local_rank = 0);

// Of a target and device that were chosen. The communicator reaches the other devices, where there
// are any.
std::unique_ptr<offload::Backend> make_backend(
    models::Target target, int device = 0,
    std::shared_ptr<offload::Communicator> communicator = nullptr);

}  // namespace longshore::trainer
