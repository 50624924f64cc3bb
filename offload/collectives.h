// Collectives: what devices that train together exchange. In a plan they are instructions of
// Lane::network; how the bytes travel is the backend's business.
#pragma once

#include <any>
#include <cstdint>

#include "models/op.h"

namespace longshore::offload {

// Devices along one axis of the mesh: how many, in how many nodes, and which of them this one is.
struct MeshRanks {
  int64_t count = 1;
  int64_t nodes = 1;
  int64_t rank = 0;

  bool operator==(const MeshRanks&) const = default;
};

// The devices of a run. Along `fsdp` each holds a shard of every slab; along `data` all hold the
// same.
struct DeviceMesh {
  MeshRanks data, fsdp;

  int64_t devices() const { return data.count * fsdp.count; }
  // Of all of them: fsdp is the inner axis, so that its devices are neighbours.
  int64_t rank() const { return data.rank * fsdp.count + fsdp.rank; }
  bool operator==(const DeviceMesh&) const = default;
};

enum class Axis : uint8_t { data, fsdp };

const char* name(Axis axis);

// Among whom: the attributes of the ops below.
struct Collective {
  Axis axis = Axis::fsdp;
  int64_t ranks = 1;
  int64_t nodes = 1;
};

Collective along(const DeviceMesh& mesh, Axis axis);

extern const models::Op all_gather_op;      // (x [k]) -> all ranks' x, in their order [ranks * k]
extern const models::Op reduce_scatter_op;  // (x [ranks * k]) -> this rank's part of the sum [k]
extern const models::Op all_reduce_op;      // (x) -> the sum; may be in place

// Bytes that each rank sends, and as many receives, where they go around a ring: all but a rank's
// own part of what is gathered or scattered, and twice that of what is reduced for all (Patarasuk &
// Yuan 2009, "Bandwidth optimal all-reduce algorithms").
double wire_bytes(const models::Op& op, const std::any& attrs, const models::Type& in);

}  // namespace longshore::offload
