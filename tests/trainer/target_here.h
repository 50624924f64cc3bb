// Where `backend: auto` computes on this machine: what is tested there is what its users get.
#pragma once

#include "tests/offload/toy_models.h"
#include "trainer/config/backend_choice.h"

namespace longshore::trainer {

inline models::Target target_here() { return choose_backend(Config{}).target; }

// GPUs do; a CPU does where oneDNN has products of it.
inline bool has_bfloat16_here() {
  return models::is_cuda(target_here()) || offload::cpu_dtypes().back() == models::Dtype::bfloat16;
}

}  // namespace longshore::trainer
