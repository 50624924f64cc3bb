// An Axis is an axis of the mesh of devices that train together: collectives exchange values along
// one, and parameters are split along one.
#pragma once

#include <cstdint>

namespace longshore::models {

enum class Axis : uint8_t { data, fsdp };

const char* name(Axis axis);

}  // namespace longshore::models
