#include "longshore/trainer/run/run_checkpoints.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"
#include "longshore/offload/memory/memory.h"

namespace longshore::trainer {
namespace {

// "checkpoint after 40 steps: ..."
std::string text(const SaveReport& report) {
  if (!report.is_saved)
    return fmt::format("checkpoint after {} failed: {}", plural(report.step, "step"), report.error);
  std::string text =
      fmt::format("checkpoint after {}: {}, {} in {:.3f} s, {:.0f} MB/s; training waited {:.3f} s",
                  plural(report.step, "step"), path_text(report.folder),
                  offload::bytes_text(report.bytes), report.seconds,
                  static_cast<double>(report.bytes) / report.seconds / 1e6, report.stall_seconds);
  if (!report.error.empty()) text += "; but " + report.error;
  return text;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const OpenedRun& opened, World& world, Console& console)
    : opened_(opened), world_(world), console_(console), newest_(opened.saved_step) {}

void RunCheckpoints::enable(CheckpointSaver::Run run, std::unique_ptr<Snapshot> snapshot,
                            std::unique_ptr<SaveMemory> memory) {
  memory_ = std::move(memory);
  saver_.emplace(std::move(run), std::move(snapshot), [this](const SaveReport& report) {
    if (report.error.empty())
      console_.line(text(report));
    else
      console_.notice(text(report));
    last_ = report;
    if (!report.is_saved) return;
    stalls_.add(report.stall_seconds);
    last_saved_ = report.folder;
    last_saved_bytes_ = report.bytes;
    saved_bytes_ += static_cast<double>(report.bytes);
    saving_seconds_ += report.seconds;
  });
}

void RunCheckpoints::save(const SavePoint& point) { save(point, &CheckpointSaver::save); }

void RunCheckpoints::save_last(const SavePoint& point) {
  if (!saver_) return;
  finish();
  if (newest_ != point.step || world_.sum(last_failed()) > 0)
    save(point, &CheckpointSaver::save_now);
}

void RunCheckpoints::save(const SavePoint& point, void (CheckpointSaver::*how)(const SavePoint&)) {
  if (!saver_) return;
  memory_.reset();  // which is now the save's to take
  const auto start = std::chrono::steady_clock::now();
  const Progress shown = shown_progress();
  ((*saver_).*how)(point);
  stall_seconds_ = seconds_since(start);
  newest_ = point.step;
}

void RunCheckpoints::link_best(int64_t step) {
  if (!saver_ || !world_.is_first()) return;
  finish();
  try {
    saver_->link_best(step);
  } catch (const std::exception& error) {
    console_.notice(error.what());
  }
}

void RunCheckpoints::require_last() const {
  if (!last_failed() && (!last_ || last_->is_linked)) return;
  const std::string text =
      fmt::format("the last save, after {}, failed: {}", plural(last_->step, "step"), last_->error);
  if (last_->lacks_memory) throw OutOfMemoryError(text);
  throw Error(text);
}

void RunCheckpoints::poll() {
  if (saver_) saver_->poll();
}

void RunCheckpoints::finish() {
  if (!saver_) return;
  const Progress shown = shown_progress();
  saver_->finish();
}

// While training waits for a save.
Progress RunCheckpoints::shown_progress() const {
  return Progress("saving", [this] { return saver_->progress().value_or(0); });
}

std::string RunCheckpoints::progress() const {
  const std::optional<double> progress = saver_ ? saver_->progress() : std::nullopt;
  return progress ? fmt::format("saving {:.0f} %", 100 * *progress) : "";
}

double RunCheckpoints::take_stall_seconds() { return std::exchange(stall_seconds_, 0); }

std::optional<CheckpointFigures> RunCheckpoints::figures() const {
  if (stalls_.count() == 0) return std::nullopt;
  return CheckpointFigures{
      .saves = stalls_.count(),
      .bytes = last_saved_bytes_,
      .median_stall_seconds = median({stalls_.values().begin(), stalls_.values().end()}),
      .bytes_per_second = saving_seconds_ > 0 ? saved_bytes_ / saving_seconds_ : 0};
}

std::string RunCheckpoints::advice() const {
  if (!world_.is_first()) return "";
  if (!last_saved_.empty())
    return "The last checkpoint is whole, and the run goes on from it: " + path_text(last_saved_);
  return opened_.start ? "The run goes on from " + path_text(opened_.start->folder)
                       : "There is no checkpoint";
}

}  // namespace longshore::trainer
