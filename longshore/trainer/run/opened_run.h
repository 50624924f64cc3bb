// An OpenedRun holds what a run has before any memory is taken: its data, its folder, and where it
// starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "longshore/base/log.h"
#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/distributed/world.h"
#include "longshore/trainer/run/run_directory.h"
#include "longshore/trainer/run/training_data.h"

namespace longshore::trainer {

struct OpenedRun {
  // Every process of the run makes one. The first tokenizes what must be tokenized, makes the
  // folder, and verifies the checkpoint; `log` gets lines on what was done and found, also later.
  // Throws as open_data, RunDirectory, newest_checkpoint and open_checkpoint do, and ConfigError
  // where the folder holds a run that this config does not go on with.
  OpenedRun(const Config& config, const data::BatchSchema& schema, World& world, const Log& log);

  TrainingData data;
  std::optional<RunDirectory> directory;  // always there
  // What the run goes on from: the newest checkpoint in its folder, or else load_full_state_path.
  std::optional<Checkpoint> start;
  int64_t saved_step = -1;  // of the newest checkpoint in its folder

  int64_t first_step() const { return start ? start->manifest.step : 0; }
};

}  // namespace longshore::trainer
