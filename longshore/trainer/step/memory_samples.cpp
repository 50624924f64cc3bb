#include "longshore/trainer/step/memory_samples.h"

#include "longshore/offload/plan/memory_analysis.h"
#include "longshore/trainer/step/memory_report.h"

namespace longshore::trainer {
namespace {

using offload::Ledger;

// By run of the step, and by instruction.
std::vector<std::vector<Ledger::ByCategory>> live_bytes(const StepPlans& plans,
                                                        offload::MemoryKind kind) {
  const std::vector<offload::PlanRuns> runs = plans.runs();
  const std::vector<Ledger::ByCategory> others = bytes_of_others(plans.of_step(), kind);
  std::vector<std::vector<Ledger::ByCategory>> live;
  for (size_t i = 0; i < runs.size(); ++i) {
    live.push_back(live_categories_by_instruction(*runs[i].plan, kind));
    for (Ledger::ByCategory& bytes : live[i])
      for (offload::Category c : offload::kCategories) bytes[c] += others[i][c];
  }
  return live;
}

}  // namespace

std::vector<MemorySample> memory_samples(const std::vector<offload::Event>& events,
                                         const StepPlans& plans, offload::MemoryKind kind) {
  const std::vector<offload::PlanRuns> runs = plans.runs();
  const std::vector<std::vector<Ledger::ByCategory>> live = live_bytes(plans, kind);
  std::vector<MemorySample> samples;
  auto event = events.begin();  // in the order of the runs' instructions
  for (size_t i = 0; i < runs.size(); ++i)
    for (int64_t number = 0; number < runs[i].times; ++number)
      for (const Ledger::ByCategory& bytes : live[i]) {
        const offload::Event& at = *event++;
        if (at.lane != offload::Lane::compute) continue;
        if (!samples.empty() && samples.back().live == bytes) continue;
        samples.push_back({.at = at.span.begin, .live = bytes});
      }
  return samples;
}

std::vector<MemorySample> memory_by_kernel(const StepPlans& plans, offload::MemoryKind kind) {
  const std::vector<offload::PlanRuns> runs = plans.runs();
  const std::vector<std::vector<Ledger::ByCategory>> live = live_bytes(plans, kind);
  std::vector<MemorySample> samples;
  for (size_t i = 0; i < runs.size(); ++i)
    for (size_t j = 0; j < live[i].size(); ++j)
      if (runs[i].plan->instructions[j].lane == offload::Lane::compute)
        samples.push_back({.at = static_cast<double>(samples.size()), .live = live[i][j]});
  return samples;
}

}  // namespace longshore::trainer
