// What takes a run's memory between two steps, and what the plans say of the moment in a step at
// which most is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longshore/offload/backends/backend.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/step/training_session.h"

namespace longshore::trainer {

// Buffers of one category, stage and name, those of all layers together. What no plan knows, as
// the buffers through which checkpoints are written, has no stage and the name "beside the plans".
struct LiveMemory {
  offload::Category category = offload::Category::temporaries;
  std::string stage, name;
  int64_t now_buffers = 0, now_bytes = 0;
  int64_t peak_buffers = 0, peak_bytes = 0;  // planned
};

// Of a kind, in the order of categories, the largest first. `now` is what the ledger counts, and
// with `is_deferred` also what the last pass of a step leaves in the arenas for the next step.
// What the peak's bytes add up to, by category, is what `planned`, the analysis of all plans, says.
std::vector<LiveMemory> live_memory(const TrainingPlans& plans, const MemoryByKind& planned,
                                    const offload::Ledger& ledger, bool is_deferred,
                                    offload::MemoryKind kind);

// All that as tables of at most 80 columns, with the arenas and with what the system counts. What
// takes less than a hundredth of its kind stands in one line for each category.
std::string live_memory_text(const TrainingPlans& plans, TrainingSession& session,
                             offload::Backend& backend);

}  // namespace longshore::trainer
