// The mesh of devices that train together, and the collectives by which they exchange values. In a
// plan a collective is an instruction of Lane::network; the backend decides how the bytes travel.
#pragma once

#include <any>
#include <cstdint>

#include "models/ir/op.h"

namespace longshore::offload {

enum class Axis : uint8_t { data, fsdp };

const char* name(Axis axis);

// One axis of the mesh, as a device sees it.
struct MeshAxis {
  int64_t size = 1;   // devices along the axis
  int64_t nodes = 1;  // nodes that these devices are in
  int64_t rank = 0;   // of this device, from 0

  bool operator==(const MeshAxis&) const = default;
};

// The devices of a run. Along `fsdp` each holds a shard of every bucket; along `data` all hold the
// same.
struct DeviceMesh {
  MeshAxis data, fsdp;

  const MeshAxis& along(Axis axis) const { return axis == Axis::data ? data : fsdp; }
  int64_t devices() const { return data.size * fsdp.size; }
  // This device's rank among all of them. The inner axis is fsdp, so that its devices are
  // neighbours.
  int64_t rank() const { return data.rank * fsdp.size + fsdp.rank; }
  bool operator==(const DeviceMesh&) const = default;
};

// The devices among which the ops below exchange values: the attributes of these ops.
struct Collective {
  Axis axis = Axis::fsdp;
  int64_t ranks = 1;
  int64_t nodes = 1;
};

Collective along(const DeviceMesh& mesh, Axis axis);

extern const models::Op all_gather_op;  // (x [k]) -> all ranks' x, in their order [ranks * k]; x
                                        // may be its part of that
extern const models::Op reduce_scatter_op;  // (x [ranks * k]) -> this rank's part of the sum [k]
extern const models::Op all_reduce_op;      // (x) -> the sum; may be in place

// Bytes that each rank sends, and also receives, where they travel around a ring: for all_gather
// and reduce_scatter everything but the rank's own part, and for all_reduce twice that (Patarasuk &
// Yuan 2009, "Bandwidth optimal all-reduce algorithms").
double wire_bytes(const models::Op& op, const std::any& attrs, const models::Type& in);

}  // namespace longshore::offload
