// The checkpoints of a run: the one it started from, how each save went, and the one it can resume
// from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "longshore/base/progress.h"
#include "longshore/base/sample.h"
#include "longshore/trainer/checkpoint/checkpoint_saver.h"
#include "longshore/trainer/checkpoint/save_memory.h"
#include "longshore/trainer/run/console.h"
#include "longshore/trainer/run/opened_run.h"
#include "longshore/trainer/run/summary.h"

namespace longshore::trainer {

class RunCheckpoints {
 public:
  // Saves nothing until enable(). The console gets a line for each save that has ended.
  RunCheckpoints(const OpenedRun& opened, World& world, Console& console);

  // As CheckpointSaver takes them. `memory` is what the first save will need.
  void enable(CheckpointSaver::Run run, std::unique_ptr<Snapshot> snapshot,
              std::unique_ptr<SaveMemory> memory);
  // Gives back what saving takes; waits for a save under way.
  void disable() {
    saver_.reset();
    memory_.reset();
  }
  bool are_enabled() const { return saver_.has_value(); }

  // Saves the state at that point, while the next ones run if there is a snapshot. A save
  // that fails stops no training, since nothing would be gained by that.
  void save(const SavePoint& point);
  // Saves it unless it is on the disk already: when this returns, it is there or never will be. All
  // processes of a run call it.
  void save_last(const SavePoint& point);
  // Links `best` to the checkpoint of that step, which was saved before it was known to be the
  // best.
  void link_best(int64_t step);
  // Throws an Error if the last save failed, or its parts are not what the run's folder links to:
  // nobody may take the run for saved.
  void require_last() const;

  // Says how saves went that have ended meanwhile.
  void poll();
  // Waits for a save under way.
  void finish();

  // "saving 40 %", or "" where none is under way.
  std::string progress() const;
  // Until its end has been reported.
  bool is_saving() const { return saver_ && saver_->is_saving(); }
  // That training waited since it was asked last.
  double take_stall_seconds();
  // What all saves took; nothing if there was none.
  std::optional<CheckpointFigures> figures() const;
  // Where the run goes on from if it ends now. The first process alone knows; others give "".
  std::string advice() const;

 private:
  // `how` is one of CheckpointSaver's.
  void save(const SavePoint& point, void (CheckpointSaver::*how)(const SavePoint&));
  Progress shown_progress() const;
  bool last_failed() const { return last_ && !last_->is_saved; }

  const OpenedRun& opened_;
  World& world_;
  Console& console_;
  std::optional<SaveReport> last_;
  // Of all saves that succeeded.
  Sample<double> stalls_{1024};
  std::filesystem::path last_saved_;
  double saved_bytes_ = 0, saving_seconds_ = 0;
  int64_t last_saved_bytes_ = 0;
  int64_t newest_;  // step of the newest in the run's folder, or of a save begun since
  double stall_seconds_ = 0;
  std::unique_ptr<SaveMemory> memory_;
  std::optional<CheckpointSaver> saver_;
};

}  // namespace longshore::trainer
