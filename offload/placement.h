// Where a value lives: how it is split over a mesh of devices, and in which kind of memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/memory.h"

namespace longshore::offload {

struct MeshAxis {
  std::string name;
  int64_t size = 1;

  bool operator==(const MeshAxis&) const = default;
};

// Devices in a grid with named axes; no axes: one device.
struct Mesh {
  std::vector<MeshAxis> axes;

  int64_t devices() const;
  bool operator==(const Mesh&) const = default;
};

struct Placement {
  Mesh mesh;
  std::vector<std::string> split;  // for each dimension the mesh axis that cuts it; "": none
  MemoryKind kind = MemoryKind::device;

  // The same sharding in another memory.
  Placement with_memory_kind(MemoryKind other) const;
  bool operator==(const Placement&) const = default;
};

// "pinned_host, split (x, y) over mesh (x: 1, y: 1)".
std::string text(const Placement& placement);

// Throws PlanError when a split names an axis that the mesh lacks or names one twice, when a value
// has fewer dimensions than the split, or when the mesh has more than one device.
void check(const Placement& placement, int rank);

}  // namespace longshore::offload
