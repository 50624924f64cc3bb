// Values of plans' arguments, for people and files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/types.h"
#include "offload/arguments.h"
#include "offload/parameter_layout.h"

namespace longshore::trainer {

// `type` (float32 or bfloat16, exactly converted) values of an argument, from `offset_bytes` on.
std::vector<float> read_floats(const offload::ArgumentReader& arguments, const std::string& name,
                               const models::Type& type, int64_t offset_bytes = 0);

// Weights of a parameter, a part of its elements, from the master copy where there is one.
std::vector<float> read_weights(const offload::ParameterLayout& layout,
                                const offload::Parameter& parameter,
                                const offload::ArgumentReader& arguments,
                                offload::ElementRange part);

}  // namespace longshore::trainer
