#include "longshore/models/ir/axis.h"

namespace longshore::models {

const char* name(Axis axis) { return axis == Axis::data ? "data" : "fsdp"; }

}  // namespace longshore::models
