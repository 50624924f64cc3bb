// Collectives exchange values among the devices along an axis of the mesh. They are ops like any
// other of a program; a plan runs them on its network lane, and the backend decides how the bytes
// travel. Among one device they do nothing.
//
// Every device runs the same program on values of its own, and what is minimised is the sum of all
// devices' losses. So the gradient of an all_gather is a reduce_scatter and the other way round,
// that of an all_reduce an all_reduce, and that of an all_to_all an all_to_all.
#pragma once

#include <cstdint>

#include "longshore/models/ir/axis.h"
#include "longshore/models/ir/trace.h"

namespace longshore::models {

// The devices among which an op exchanges values: the attributes of these ops.
struct Collective {
  Axis axis = Axis::fsdp;
  int64_t ranks = 1;
  int64_t nodes = 1;  // that the devices are in
};

// n ranks; the parts of a first dimension are in the order of ranks.
extern const Op all_gather_op;  // (x [k,...]) -> all ranks' x [n*k,...]; x may be its part of that
extern const Op reduce_scatter_op;  // (x [n*k,...]) -> this rank's part of the sum [k,...]
extern const Op all_reduce_op;      // (x) -> the sum; may be in place
extern const Op all_to_all_op;      // (x [n*k,...]) -> this rank's part of each rank's x [n*k,...]

bool is_collective(const Op& op);

Var all_gather(Var x, const Collective& among);
Var reduce_scatter(Var x, const Collective& among);
Var all_reduce(Var x, const Collective& among);
Var all_to_all(Var x, const Collective& among);

// Bytes that each rank sends, and also receives, where they travel around a ring: for all_gather
// and reduce_scatter everything but the rank's own part, and for all_reduce twice that (Patarasuk &
// Yuan 2009, "Bandwidth optimal all-reduce algorithms"). For all_to_all everything but the part
// that stays.
double wire_bytes(const Op& op, const std::any& attrs, const Type& in);

}  // namespace longshore::models
