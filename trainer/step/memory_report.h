// Memory of plans that share one arena, as people and programs read it.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "offload/plan.h"

namespace longshore::trainer {

using MemoryByKind = std::array<offload::MemoryAnalysis, offload::kMemoryKinds.size()>;

// Of all plans together: arguments and outputs once, the largest arena.
MemoryByKind analyze(const std::vector<const offload::Plan*>& plans);

inline const offload::MemoryAnalysis& of(const MemoryByKind& memory, offload::MemoryKind kind) {
  return memory[static_cast<size_t>(kind)];
}
int64_t total_peak_bytes(const MemoryByKind& memory);
int64_t host_peak_bytes(const MemoryByKind& memory);  // pinned or not

// "parameters 57.6 MiB, optimizer 76.8 MiB, ..."
std::string categories_text(const offload::Ledger::ByCategory& by_category);
// A line for each kind that is used: peak, XLA's categories, what is alive at the peak.
std::string text(const MemoryByKind& memory);
// Of the plan that takes most: when, and the largest of what is alive then; "" for an unused kind.
std::string peak_text(const std::vector<const offload::Plan*>& plans, offload::MemoryKind kind);
nlohmann::ordered_json json(const MemoryByKind& memory);

}  // namespace longshore::trainer
