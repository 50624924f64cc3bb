// Saves a run's checkpoints, at once or while the next steps run, and keeps the newest.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/checkpoint/snapshot.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

struct SaveReport {
  int64_t step = 0;  // steps that were done
  std::filesystem::path folder;
  bool is_saved = false;
  bool is_linked = true;      // false: the run's folder does not show what was saved
  int64_t bytes = 0;          // of all files
  double stall_seconds = 0;   // that training waited
  double seconds = 0;         // of writing, until it is on the disk
  std::string error;          // of saving, or of what follows: links and older checkpoints
  bool lacks_memory = false;  // which is that error
};

// What a save is of besides the state: as the manifest has them.
struct SavePoint {
  int64_t step = 0;  // steps that are done
  std::optional<double> clipping_norm;
  std::optional<BestSoFar> best = {};
  bool is_best = false;  // which the run's folder is to show
  std::vector<data::ShardRecord> shards = {};
};

class CheckpointSaver {
 public:
  // Whose state, what of it lives here and where, and what the manifests have in common.
  struct Run {
    SavedModel saved;
    ModelFiles files;  // of the process that writes
    const offload::ParameterLayout& held;
    const offload::Arguments& state;
    Manifest manifest;
    int64_t micro_batches = 1;  // of a step
    std::filesystem::path directory;
    World& world;
  };
  using Report = std::function<void(const SaveReport&)>;

  // With a snapshot, saves are written while the next steps run. Where there are several processes,
  // all save at the same time: the first writes, and the others give it what it asks for. `report`
  // is called once for each save that has ended, by the process that wrote it, within calls of the
  // other functions.
  CheckpointSaver(Run run, std::unique_ptr<Snapshot> snapshot, Report report);
  ~CheckpointSaver();  // waits for a save under way, and does not report it
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Saves the state as it is at that point; nothing may be deferred. Waits for the save before it.
  // A save that fails is reported, and what was there stays.
  void save(const SavePoint& point);
  // The same, without a snapshot: when it returns, the state is on the disk or never will be.
  void save_now(const SavePoint& point);

  // Links `best` to the checkpoint of that step, and removes those that need no longer stay. Where
  // it is not there, no link is left that leads nowhere. For the first process, when no save is
  // under way. Throws as link_best() does.
  void link_best(int64_t step) const;

  // Reports a save that has ended meanwhile.
  void poll();
  // Waits for a save under way.
  void finish();

  // Whether a save was begun and its end not yet reported.
  bool is_saving() const { return saving_ != kNone; }
  // The part of a save under way that is on the disk, from 0 to 1, by the sizes of its files. Any
  // thread may ask.
  std::optional<double> progress() const;

 private:
  void remove_old() const;
  SaveReport write(const SavePoint& point, const offload::ArgumentReader& whole) const;
  // What this process does to save the state that is, in part, in `here`. The first process's
  // others wait from this call on.
  std::function<SaveReport()> part_in_save(const SavePoint& point,
                                           const offload::Arguments& here) const;

  Run run_;
  std::unique_ptr<Snapshot> snapshot_;
  Report report_;
  static constexpr int64_t kNone = -1;
  int64_t expected_bytes_ = 0;
  std::atomic<int64_t> saving_ = kNone;  // the step of the save under way
  std::future<SaveReport> pending_;
};

}  // namespace longshore::trainer
