// A StateFormat says what an optimizer's states are stored in.
#pragma once

#include <cstdint>

namespace longshore::models {

// block8 is longshore/models/ops/kernels/block8.h: codes of 8 bits and one scale for each 256 of
// them.
enum class StateFormat : uint8_t { float32, bfloat16, block8 };

}  // namespace longshore::models
