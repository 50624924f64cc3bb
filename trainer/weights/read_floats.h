// Values of plans' arguments, for people and files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/types.h"
#include "offload/executor.h"
#include "offload/parameter_layout.h"

namespace longshore::trainer {

// `type` (float32 or bfloat16, exactly converted) values of an argument, from `offset_bytes` on.
std::vector<float> read_floats(const offload::ArgumentReader& arguments, const std::string& name,
                               const models::Type& type, int64_t offset_bytes = 0);

// A part of a parameter's elements.
struct ElementRange {
  int64_t first = 0, count = 0;
};

// Weights of a parameter, from the master copy where there is one.
std::vector<float> read_weights(const offload::ParameterLayout& layout,
                                const offload::Parameter& parameter,
                                const offload::ArgumentReader& arguments, ElementRange range);

}  // namespace longshore::trainer
