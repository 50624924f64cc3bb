#include "longshore/offload/execution/arenas.h"

#include <algorithm>

namespace longshore::offload {
namespace {

int64_t most_bytes(const std::vector<const Plan*>& plans, MemoryKind kind) {
  int64_t most = 0;
  for (const Plan* plan : plans) most = std::max(most, plan->arena_bytes[kind]);
  return most;
}

}  // namespace

Arena::Arena(Backend& backend, MemoryKind kind, int64_t bytes)
    : backend_(backend), kind_(kind), bytes_(bytes), memory_(backend.allocate(kind, bytes)) {}

Arena::~Arena() { backend_.free(kind_, memory_); }

Arenas::Arenas(Backend& backend, const std::vector<const Plan*>& plans)
    : device_(backend, MemoryKind::device, most_bytes(plans, MemoryKind::device)),
      pinned_host_(backend, MemoryKind::pinned_host, most_bytes(plans, MemoryKind::pinned_host)) {}

}  // namespace longshore::offload
