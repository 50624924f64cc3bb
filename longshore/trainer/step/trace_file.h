// trace.json: recorded steps in Chrome's trace event format, which chrome://tracing and Perfetto
// show. A row for each lane. An event has the name of what it makes or moves, its op, stage, layer
// and phase, whether it recomputes, and, of copies, its bytes. A counter for each memory kind has
// the bytes of each category that the step's plans have live.
#pragma once

#include <filesystem>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/offload/backends/timeline.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

struct RecordedStep {
  int64_t step = 0;
  double begin = 0;                    // seconds since the first recorded step began
  std::vector<offload::Event> events;  // as timeline() orders them
};

// The steps are of these plans.
void write_trace(const std::vector<RecordedStep>& steps, const StepPlans& plans,
                 const std::filesystem::path& path, Links links = Links::followed);

}  // namespace longshore::trainer
