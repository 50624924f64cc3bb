// Reads values of plans' arguments in float32, for files and for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longshore/models/ir/types.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::trainer {

// Elements of a weight that are worked on at a time: in float32 they stay in a processor's cache.
inline constexpr int64_t kWeightPieceElements = int64_t{1} << 20;

// `type` (float32 or bfloat16, exactly converted) values of an argument, from `offset_bytes` on.
std::vector<float> read_floats(const offload::ArgumentReader& arguments, const std::string& name,
                               const models::Type& type, int64_t offset_bytes = 0);

// Weights of a parameter, a part of the tensor's elements, from the master copy where there is one.
// `layout` is whole().
std::vector<float> read_weights(const offload::ParameterLayout& layout,
                                const offload::Parameter& parameter,
                                const offload::ArgumentReader& arguments,
                                offload::ElementRange part);

}  // namespace longshore::trainer
