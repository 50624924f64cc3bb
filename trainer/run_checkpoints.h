// How the saves of a run went.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/metrics.h"

namespace longshore::trainer {

// "checkpoint after 40 steps: ..."
std::string text(const SaveReport& report);

class SaveLog {
 public:
  void add(const SaveReport& report) { reports_.push_back(report); }

  bool last_failed() const { return !reports_.empty() && !reports_.back().is_saved; }
  // Throws an Error if it did. A save that fails stops no training, since nothing would be gained
  // by that; but nobody may take the run for saved.
  void require_last() const;

  // Of the newest checkpoint that was saved.
  std::optional<std::filesystem::path> newest_folder() const;
  // Nothing where none was saved.
  std::optional<CheckpointFigures> figures() const;

 private:
  std::vector<SaveReport> reports_;
};

}  // namespace longshore::trainer
