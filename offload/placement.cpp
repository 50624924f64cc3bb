#include "offload/placement.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nearest.h"

namespace longshore::offload {

int64_t Mesh::devices() const {
  int64_t count = 1;
  for (const MeshAxis& axis : axes) count *= axis.size;
  return count;
}

Placement Placement::with_memory_kind(MemoryKind other) const {
  Placement placement = *this;
  placement.kind = other;
  return placement;
}

std::string text(const Placement& placement) {
  std::string text = name(placement.kind);
  if (placement.mesh.axes.empty()) return text;
  std::string split, mesh;
  for (const std::string& axis : placement.split)
    split += (split.empty() ? "" : ", ") + (axis.empty() ? "-" : axis);
  for (const MeshAxis& axis : placement.mesh.axes)
    mesh += (mesh.empty() ? "" : ", ") + axis.name + ": " + std::to_string(axis.size);
  return text + ", split (" + split + ") over mesh (" + mesh + ")";
}

void check(const Placement& placement, int rank) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : placement.mesh.axes) names.push_back(axis.name);
  std::set<std::string> used;
  for (const std::string& axis : placement.split) {
    if (axis.empty()) continue;
    if (std::find(names.begin(), names.end(), axis) == names.end())
      throw PlanError("placement " + text(placement) + ": the mesh has no axis '" + axis +
                      "'; it has " + join(names));
    if (!used.insert(axis).second)
      throw PlanError("placement " + text(placement) + ": axis '" + axis + "' is used twice");
  }
  if (static_cast<int>(placement.split.size()) > rank)
    throw PlanError("placement " + text(placement) + ": a split of " +
                    std::to_string(placement.split.size()) + " dimensions for a value of " +
                    std::to_string(rank));
  if (placement.mesh.devices() != 1)
    throw PlanError("placement " + text(placement) + ": expected a mesh of one device, found " +
                    std::to_string(placement.mesh.devices()));
}

}  // namespace longshore::offload
