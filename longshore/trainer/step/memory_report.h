// The memory of plans that share one arena, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "longshore/offload/plan/memory_analysis.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::trainer {

using MemoryByKind = offload::PerMemoryKind<offload::MemoryAnalysis>;

// The memory of all plans together: each argument and output counts once, of the arenas the
// largest.
MemoryByKind analyze(const std::vector<const offload::Plan*>& plans);

// For each plan, the bytes that callers' buffers of the others alone take: they stay allocated
// while it runs.
std::vector<offload::Ledger::ByCategory> bytes_of_others(
    const std::vector<const offload::Plan*>& plans, offload::MemoryKind kind);

int64_t total_peak_bytes(const MemoryByKind& memory);
int64_t host_peak_bytes(const MemoryByKind& memory);  // pinned or not

// "parameters 57.6 MiB, optimizer 76.8 MiB, ..."
std::string categories_text(const offload::Ledger::ByCategory& by_category);
// For each kind that is used: the peak, XLA's categories, and what is live at the peak.
std::string text(const MemoryByKind& memory);
// When the plan with the most live bytes has them, and the largest groups of what is live then; ""
// for a kind that no plan uses.
std::string peak_text(const std::vector<const offload::Plan*>& plans, offload::MemoryKind kind);
nlohmann::ordered_json json(const MemoryByKind& memory);

}  // namespace longshore::trainer
