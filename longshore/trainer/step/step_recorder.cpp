#include "longshore/trainer/step/step_recorder.h"

#include <fmt/format.h>

#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"

namespace longshore::trainer {

StepResult StepRecorder::run(TrainStep& train, int64_t step,
                             std::chrono::steady_clock::time_point start,
                             const std::vector<data::Batch>& batch, const StepScalars& scalars,
                             const std::vector<data::Batch>& of_others, offload::Ledger& ledger) {
  if (step < first_ || step >= first_ + count_) return train.run(batch, scalars, ledger, of_others);
  if (steps_.empty()) begin_ = start;
  steps_.push_back({.step = step, .begin = seconds_since(begin_), .events = {}});
  return train.record(batch, scalars, ledger, steps_.back().events, of_others);
}

std::string StepRecorder::write(const StepPlans& plans, const std::filesystem::path& path) const {
  write_trace(steps_, plans, path, Links::refused);
  const offload::Overlap times = offload::overlap(steps_.back().events);
  const std::string copies = times.copying == 0
                                 ? "nothing was moved"
                                 : fmt::format("copies {:.4f} s, {:.0f} % of it behind kernels",
                                               times.copying, 100 * times.hidden / times.copying);
  return fmt::format("{}: {}; in the last, kernels {:.4f} s of {:.4f} s, {}",
                     path_text(path.filename()), plural(std::ssize(steps_), "step"),
                     times.computing, times.total, copies);
}

}  // namespace longshore::trainer
