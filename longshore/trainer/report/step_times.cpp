#include "longshore/trainer/report/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "longshore/base/text.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/report/bar_chart.h"

namespace longshore::trainer {
namespace {

constexpr size_t kMostMarks = 8;
constexpr double kSlow = 0.5;       // of the median beyond it
constexpr double kFarOut = 3;       // times as far as the quartiles are from each other
constexpr double kLongPause = 0.1;  // of the median step

// The value of a step; 0 where there is none.
double at_step(const RunRecords& run, const char* key, double step) {
  const Numbers* numbers = run.find(key);
  if (numbers == nullptr) return 0;
  const auto found = std::ranges::lower_bound(numbers->points, step, {}, &Point::x);
  return found == numbers->points.end() || found->x != step ? 0 : found->y;
}

std::string cause_of_slow(const RunRecords& run, const Point& step, double median) {
  const auto number = static_cast<int64_t>(step.x);
  if (number == 0) return "the first step touches memory and fills caches";
  if (run.is_resumed(number))
    return "the first step of a resumed run touches memory and fills caches";
  if (const double waited = at_step(run, "data_wait_seconds", step.x);
      waited > (step.y - median) / 2)
    return fmt::format("waited {:.3g} s for data", waited);
  if (run.is_saving(number)) return "a save was being written";
  if (run.measured_step() && run.measured_step()->recorded(number))
    return "the profiler recorded it";
  return "no cause is known";
}

std::string cause_of_pause(const RunRecords& run, double step) {
  const auto before = static_cast<int64_t>(step) - 1;
  const bool is_evaluated = std::ranges::binary_search(run.evaluations(), before);
  std::vector<std::string> causes;
  if (is_evaluated) causes.emplace_back("evaluation");
  if (const double stalled = at_step(run, "checkpoint_stall_seconds", step); stalled > 0)
    causes.push_back(fmt::format("a save held it up for {:.3g} s", stalled));
  if (run.measured_step() && run.measured_step()->last_step == before)
    causes.push_back(fmt::format("{} was written", kTraceFile));
  return causes.empty() ? "no cause is known" : join(causes, ", and ");
}

std::vector<Mark> marks(const RunRecords& run) {
  const double median = run.median("seconds");
  const Numbers *seconds = run.find("seconds"), *pauses = run.find(kPauseSeconds);
  constexpr double kLeast = 1e-9;  // that a step takes
  if (seconds == nullptr || !(median > kLeast)) return {};
  const double spread = run.quantile("seconds", 0.75) - run.quantile("seconds", 0.25);
  const double slow = median + std::max(kSlow * median, kFarOut * spread);
  std::vector<Mark> all;
  for (const Point& step : seconds->points)
    if (step.y > slow)
      all.push_back({step, fmt::format("step {:.0f}: {:.3g} s, {:.1f} times the median; {}", step.x,
                                       step.y, step.y / median, cause_of_slow(run, step, median))});
  if (pauses != nullptr)
    for (const Point& pause : pauses->points)
      if (pause.y > kLongPause * median)
        all.push_back({pause, fmt::format("before step {:.0f}: {:.3g} s; {}", pause.x, pause.y,
                                          cause_of_pause(run, pause.x))});
  if (all.size() > kMostMarks) {
    std::ranges::nth_element(all, all.begin() + kMostMarks, std::greater{},
                             [](const Mark& mark) { return mark.at.y; });
    all.resize(kMostMarks);
  }
  std::ranges::sort(all, {}, [](const Mark& mark) { return mark.at.x; });
  return all;
}

std::string share_text(double seconds, double of) {
  return fmt::format("{:.4g} s, {:.1f} %", seconds, 100 * seconds / of);
}

}  // namespace

LineChart step_times(const std::vector<const RunRecords*>& runs) {
  LineChart chart{.title = "Step time", .x_name = "step", .y_axis = kSecondsAxis};
  for (size_t r = 0; r < runs.size(); ++r) {
    const std::string name = runs.size() > 1 ? runs[r]->name() : "step";
    if (const Numbers* seconds = runs[r]->find("seconds"))
      chart.series.push_back(
          {.name = name, .points = seconds->points, .color = static_cast<int>(r)});
  }
  if (runs.size() == 1) {
    if (const Numbers* pauses = runs[0]->find(kPauseSeconds))
      chart.series.push_back({.name = "before it", .points = pauses->points, .color = 1});
    chart.marks = marks(*runs[0]);
  }
  return chart;
}

std::string phases_html(const StepPicture& step) {
  std::map<WorkKind, double> phases;
  double kernels = 0;
  for (const OpTime& op : step.ops) {
    phases[op.kind] += op.seconds;
    kernels += op.seconds;
  }
  std::vector<Bar> bars;
  for (const auto& [kind, seconds] : phases)
    bars.push_back({.label = name(kind),
                    .value = share_text(seconds, step.seconds),
                    .parts = {{0, seconds, style(kind), name(kind)}},
                    .spread = {},
                    .marker = {}});
  if (const double waiting = step.seconds - kernels; waiting > 0)
    bars.push_back({.label = "no kernel runs",
                    .value = share_text(waiting, step.seconds),
                    .parts = {{0, waiting, "waiting", "no kernel runs"}},
                    .spread = {},
                    .marker = {}});
  return bar_chart(bars, kSecondsAxis);
}

std::string ops_html(const StepPicture& step) {
  constexpr size_t kShown = 12;
  std::map<std::string, Bar> by_op;
  std::map<std::string, double> seconds;
  for (const OpTime& op : step.ops) {
    Bar& bar = by_op[op.op];
    const double from = seconds[op.op];
    seconds[op.op] += op.seconds;
    bar.label = op.op;
    bar.parts.push_back({from, seconds[op.op], style(op.kind),
                         fmt::format("{} {:.4g} s", name(op.kind), op.seconds)});
    bar.value = share_text(seconds[op.op], step.seconds);
  }
  std::vector<Bar> bars;
  for (const auto& [op, bar] : by_op) bars.push_back(bar);
  std::ranges::stable_sort(bars, std::greater{},
                           [&](const Bar& bar) { return seconds[bar.label]; });
  if (bars.size() > kShown) bars.resize(kShown);
  return bar_chart(bars, kSecondsAxis);
}

}  // namespace longshore::trainer
