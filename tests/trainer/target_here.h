// target_here() says where `backend: auto` computes on this machine: what is tested there is what
// its users get.
#pragma once

#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/model_config.h"

namespace longshore::trainer {

inline models::Target target_here() { return choose_backend(Config{}).target; }

inline bool has_bfloat16_here() { return has_bfloat16(target_here()); }

}  // namespace longshore::trainer
