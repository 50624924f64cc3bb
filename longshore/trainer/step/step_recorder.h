// A StepRecorder records some steps of a run and writes them to trace.json.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "longshore/trainer/step/step.h"
#include "longshore/trainer/step/trace_file.h"

namespace longshore::trainer {

class StepRecorder {
 public:
  // Records `count` steps from `first` on.
  StepRecorder(int64_t first, int64_t count) : first_(first), count_(count) {}

  // Runs step number `step`, which began with asking for its batch at `start`.
  StepResult run(TrainStep& train, int64_t step, std::chrono::steady_clock::time_point start,
                 const std::vector<data::Batch>& batch, const StepScalars& scalars,
                 const std::vector<data::Batch>& of_others, offload::Ledger& ledger);

  // Whether `step` was the last to be recorded.
  bool ends_with(int64_t step) const { return count_ > 0 && step == first_ + count_ - 1; }

  // Whether some are recorded, and others to come.
  bool is_recording() const { return !steps_.empty() && std::ssize(steps_) < count_; }

  // Writes trace.json, and says what the last step's copies came to.
  std::string write(const StepPlans& plans, const std::filesystem::path& path) const;

 private:
  int64_t first_, count_;
  std::chrono::steady_clock::time_point begin_;  // of the first recorded step
  std::vector<RecordedStep> steps_;
};

}  // namespace longshore::trainer
