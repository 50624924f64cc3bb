// What is live in memory while a step runs, of each category: by time, or without times by
// instruction.
#pragma once

#include <vector>

#include "longshore/offload/backends/timeline.h"
#include "longshore/offload/memory/memory.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

// From there until the next sample.
struct MemorySample {
  double at = 0;  // seconds since the step began, or a number of kernels
  offload::Ledger::ByCategory live{};
};

// Where it changes. What is live while a plan runs is known by instruction; kernels run one after
// the other, and so say when that is. `events` are those of a whole step of these plans.
std::vector<MemorySample> memory_samples(const std::vector<offload::Event>& events,
                                         const StepPlans& plans, offload::MemoryKind kind);

// The same of a step that nobody has timed, a sample for each kernel: micro-batches that are alike
// count once.
std::vector<MemorySample> memory_by_kernel(const StepPlans& plans, offload::MemoryKind kind);

}  // namespace longshore::trainer
