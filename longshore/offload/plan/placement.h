// A Placement says where a value lives: how it is sharded over the mesh of devices, and in which
// kind of memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longshore/offload/memory/memory.h"
#include "longshore/offload/plan/mesh.h"

namespace longshore::offload {

struct Placement {
  DeviceMesh mesh;
  // For each dimension the mesh axis that divides it; dimensions without one, and those beyond the
  // list, are not divided.
  std::vector<std::optional<Axis>> split;
  MemoryKind kind = MemoryKind::device;

  // The same sharding in another memory.
  Placement with_memory_kind(MemoryKind other) const;
  bool operator==(const Placement&) const = default;
};

// "pinned_host, split (data, -) over mesh (data: 1, fsdp: 1)"; "pinned_host" without a split.
std::string text(const Placement& placement);

// Throws UsageError where two dimensions are divided by one axis, where a value of `rank`
// dimensions has fewer of them than the split, and where the mesh has more than one device: tensors
// and functions work on one.
void check(const Placement& placement, int rank);

}  // namespace longshore::offload
