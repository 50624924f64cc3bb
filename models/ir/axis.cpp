#include "models/ir/axis.h"

namespace longshore::models {

const char* name(Axis axis) { return axis == Axis::data ? "data" : "fsdp"; }

bool is_collective(const Op& op) {
  return &op == &all_gather_op || &op == &reduce_scatter_op || &op == &all_reduce_op ||
         &op == &all_to_all_op;
}

}  // namespace longshore::models
