#include "longshore/offload/plan/placement.h"

#include <set>

#include "longshore/base/error.h"

namespace longshore::offload {
namespace {

std::string axis_text(const DeviceMesh& mesh, Axis axis) {
  return std::string(name(axis)) + ": " + std::to_string(mesh.along(axis).size);
}

}  // namespace

Placement Placement::with_memory_kind(MemoryKind other) const {
  Placement placement = *this;
  placement.kind = other;
  return placement;
}

std::string text(const Placement& placement) {
  const std::string kind = name(placement.kind);
  if (placement.split.empty()) return kind;
  std::string split;
  for (const std::optional<Axis>& axis : placement.split)
    split += (split.empty() ? "" : ", ") + std::string(axis ? name(*axis) : "-");
  return kind + ", split (" + split + ") over mesh (" + axis_text(placement.mesh, Axis::data) +
         ", " + axis_text(placement.mesh, Axis::fsdp) + ")";
}

void check(const Placement& placement, int rank) {
  auto refuse = [&](const std::string& why) {
    throw UsageError("placement " + text(placement) + ": " + why);
  };
  std::set<Axis> used;
  for (const std::optional<Axis>& axis : placement.split)
    if (axis && !used.insert(*axis).second)
      refuse("axis '" + std::string(name(*axis)) + "' is used twice");
  if (std::ssize(placement.split) > rank)
    refuse("a split of " + std::to_string(placement.split.size()) + " dimensions for a value of " +
           std::to_string(rank));
  if (placement.mesh.devices() != 1)
    refuse("expected a mesh of one device, found " + std::to_string(placement.mesh.devices()));
}

}  // namespace longshore::offload
