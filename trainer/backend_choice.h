// Which backend a run uses, and why.
#pragma once

#include <memory>
#include <string>

#include "offload/backend.h"
#include "trainer/config.h"

namespace longshore::trainer {

struct ChosenBackend {
  std::unique_ptr<offload::Backend> backend;
  std::string description;  // "cpu (2 threads), since this build has no CUDA backend"
};

// Throws ConfigError when `backend: cuda` asks for what is not there.
ChosenBackend choose_backend(const Config& config);

}  // namespace longshore::trainer
