#include "trainer/save_log.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/timing.h"
#include "offload/memory.h"

namespace longshore::trainer {

std::string text(const SaveReport& report) {
  if (!report.is_saved)
    return fmt::format("checkpoint after {} steps failed: {}", report.step, report.error);
  std::string text = fmt::format(
      "checkpoint after {} steps: {}, {} in {:.3f} s, {:.0f} MB/s; training waited {:.3f} s",
      report.step, report.folder.string(), offload::bytes_text(report.bytes), report.seconds,
      static_cast<double>(report.bytes) / report.seconds / 1e6, report.stall_seconds);
  if (!report.error.empty()) text += "; but " + report.error;
  return text;
}

void SaveLog::require_last() const {
  if (last_failed())
    throw Error(fmt::format("the last save, after {} steps, failed: {}", reports_.back().step,
                            reports_.back().error));
}

std::optional<std::filesystem::path> SaveLog::newest_folder() const {
  for (auto report = reports_.rbegin(); report != reports_.rend(); ++report)
    if (report->is_saved) return report->folder;
  return std::nullopt;
}

std::optional<CheckpointFigures> SaveLog::figures() const {
  CheckpointFigures figures;
  std::vector<double> stalls;
  double bytes = 0, seconds = 0;
  for (const SaveReport& report : reports_) {
    if (!report.is_saved) continue;
    figures.saves += 1;
    figures.bytes = report.bytes;
    bytes += static_cast<double>(report.bytes);
    seconds += report.seconds;
    stalls.push_back(report.stall_seconds);
  }
  if (stalls.empty()) return std::nullopt;
  figures.median_stall_seconds = median(stalls);
  if (seconds > 0) figures.bytes_per_second = bytes / seconds;
  return figures;
}

}  // namespace longshore::trainer
