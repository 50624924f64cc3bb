// A DeviceMesh says how the devices that train together are arranged along named axes.
#pragma once

#include <cstdint>

#include "longshore/models/ir/collectives.h"

namespace longshore::offload {

using models::Axis;
using models::Collective;

// One axis of the mesh, as a device sees it.
struct MeshAxis {
  int64_t size = 1;   // devices along the axis
  int64_t nodes = 1;  // nodes that these devices are in
  int64_t rank = 0;   // of this device, from 0

  bool operator==(const MeshAxis&) const = default;
};

// The devices of a run. Along `fsdp` each holds a shard of every bucket; along `data` all hold the
// same, but for what is split along it.
struct DeviceMesh {
  MeshAxis data, fsdp;

  const MeshAxis& along(Axis axis) const { return axis == Axis::data ? data : fsdp; }
  int64_t devices() const { return data.size * fsdp.size; }
  // This device's rank among all of them. The inner axis is fsdp, so that its devices are
  // neighbours.
  int64_t rank() const { return data.rank * fsdp.size + fsdp.rank; }
  bool operator==(const DeviceMesh&) const = default;
};

inline Collective along(const DeviceMesh& mesh, Axis axis) {
  return {axis, mesh.along(axis).size, mesh.along(axis).nodes};
}

}  // namespace longshore::offload
