#include "longshore/trainer/checkpoint/checkpoint_saver.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <system_error>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/partial_name.h"
#include "longshore/base/printable.h"
#include "longshore/base/refusals.h"
#include "longshore/base/timing.h"
#include "longshore/trainer/checkpoint/shared_state.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/weights/saved_state.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

int64_t state_bytes(const offload::ParameterLayout& layout) {
  int64_t total = 0;
  for (const SavedArgument& one : saved_arguments(layout)) total += one.bytes;
  return total;
}

}  // namespace

CheckpointSaver::CheckpointSaver(Run run, std::unique_ptr<Snapshot> snapshot, Report report)
    : run_(std::move(run)),
      snapshot_(std::move(snapshot)),
      report_(std::move(report)),
      expected_bytes_(state_bytes(run_.saved.layout)) {}

CheckpointSaver::~CheckpointSaver() {
  if (pending_.valid()) pending_.wait();
}

SaveReport CheckpointSaver::write(const SavePoint& point,
                                  const offload::ArgumentReader& whole) const {
  const fs::path folder = run_.directory / kCheckpointsFolder;
  SaveReport report{
      .step = point.step, .folder = folder / checkpoint_name(point.step), .error = {}};
  const auto start = Clock::now();
  try {
    Manifest manifest = run_.manifest;
    manifest.step = point.step;
    manifest.batches = point.step * run_.micro_batches;
    manifest.clipping_norm = point.clipping_norm;
    manifest.best = point.best;
    manifest.shards = point.shards;
    make_folder(folder);
    manifest = write_checkpoint(report.folder, run_.saved, run_.files, whole, std::move(manifest));
    for (const SavedFile& file : manifest.files) report.bytes += file.bytes;
    report.seconds = seconds_since(start);
    report.is_saved = true;
  } catch (const std::exception& error) {
    report.error = refusal_text(error);
    report.lacks_memory = is_out_of_memory(error);
    return report;
  }
  auto attempt = [&](auto call) {
    try {
      call();
      return true;
    } catch (const std::exception& error) {
      report.error += (report.error.empty() ? "" : "; ") + std::string(error.what());
      return false;
    }
  };
  report.is_linked = attempt([&] { link_parts(run_.directory, {report.folder, {}}); });
  if (point.is_best)
    report.is_linked &= attempt([&] { trainer::link_best(run_.directory, report.folder); });
  attempt([&] { remove_old(); });
  return report;
}

std::function<SaveReport()> CheckpointSaver::part_in_save(const SavePoint& point,
                                                          const offload::Arguments& here) const {
  if (run_.world.size() == 1) return [this, point, &here] { return write(point, here); };
  if (!run_.world.is_first())
    return [this, &here] {
      give_state(run_.held, here, run_.world);
      return SaveReport{};
    };
  auto whole = std::make_shared<SharedState>(run_.held, here, run_.world);
  return [this, point, whole]() mutable {
    SaveReport report = write(point, *whole);
    whole.reset();
    return report;
  };
}

void CheckpointSaver::save(const SavePoint& point) {
  if (!snapshot_) return save_now(point);
  const auto start = Clock::now();
  finish();
  snapshot_->take(run_.state);
  const double stall = seconds_since(start);
  auto take_part = part_in_save(point, snapshot_->arguments());
  try {
    require_threads(omp_get_max_threads() + 1);  // it starts those of OpenMP
    pending_ = std::async(std::launch::async, [stall, take_part = std::move(take_part)]() mutable {
      SaveReport report = take_part();
      report.stall_seconds = stall;
      return report;
    });
    saving_ = point.step;
  } catch (const std::exception& error) {  // no more threads
    if (!run_.world.is_first()) throw;     // the first would wait for ever
    report_({.step = point.step, .folder = {}, .error = refusal_text(error)});
  }
}

void CheckpointSaver::save_now(const SavePoint& point) {
  const auto start = Clock::now();
  finish();
  saving_ = point.step;
  SaveReport report = part_in_save(point, run_.state)();
  saving_ = kNone;
  report.stall_seconds = seconds_since(start);
  if (run_.world.is_first()) report_(report);
}

void CheckpointSaver::link_best(int64_t step) const {
  const fs::path checkpoint = run_.directory / kCheckpointsFolder / checkpoint_name(step);
  const fs::path link = run_.directory / kBestLink;
  if (!fs::exists(checkpoint)) {
    if (fs::is_symlink(link) && !fs::exists(link)) fs::remove(link);
    return;
  }
  trainer::link_best(run_.directory, checkpoint);
  remove_old();
}

void CheckpointSaver::remove_old() const {
  remove_old_checkpoints(run_.directory / kCheckpointsFolder,
                         run_.saved.config.max_num_checkpoints_to_keep,
                         best_checkpoint(run_.directory));
}

void CheckpointSaver::poll() {
  if (pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    finish();
}

void CheckpointSaver::finish() {
  if (!pending_.valid()) return;
  const SaveReport report = pending_.get();
  saving_ = kNone;
  if (run_.world.is_first()) report_(report);
}

std::optional<double> CheckpointSaver::progress() const {
  const int64_t step = saving_;
  if (step == kNone) return std::nullopt;
  const std::string partial = partial_name(checkpoint_name(step)).string();
  int64_t written = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(run_.directory / kCheckpointsFolder, error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry.depth() == 0 && !entry->path().filename().string().starts_with(partial))
      entry.disable_recursion_pending();
    else if (const auto bytes = entry->file_size(error); !error)
      written += static_cast<int64_t>(bytes);
    error.clear();
  }
  return std::min(1.0, static_cast<double>(written) / static_cast<double>(expected_bytes_));
}

}  // namespace longshore::trainer
