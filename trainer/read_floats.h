// Values of plans' arguments, for people and files.
#pragma once

#include <string>
#include <vector>

#include "models/types.h"
#include "offload/executor.h"

namespace longshore::trainer {

// `type` (float32 or bfloat16, exactly converted) values of an argument, from `offset_bytes` on.
std::vector<float> read_floats(const offload::Arguments& arguments, const std::string& name,
                               const models::Type& type, int64_t offset_bytes = 0);

}  // namespace longshore::trainer
