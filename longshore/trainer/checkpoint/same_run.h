// require_same_run() checks whether a run may go on from a checkpoint: only where that is the same
// as never having stopped.
#pragma once

#include <string>
#include <vector>

#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// What the manifests of a run's checkpoints have in common. `dtype: auto` and a schedule as long as
// the run stand as what they came to.
Manifest describe_run(const Config& config, models::Dtype dtype, std::vector<std::string> data,
                      std::string frozen_weights);

// The config with the length of the checkpoint's learning rate schedule where it gives none, so
// that more steps may be asked for.
Config with_schedule_of(const Checkpoint& checkpoint, Config config);

// Throws a ConfigError that lists, with both values, everything that would give other steps than
// the checkpoint's run: keys of model, training, batch, optimizer and data, the tokens, the frozen
// weights, sequences of a micro-batch on all devices; and steps, where the checkpoint has more.
// `here` is describe_run() of `config`.
//
// Where things live, what is computed again, evaluation, reports and checkpoints themselves may
// change, and files may have other names.
void require_same_run(const Config& config, const Manifest& here, const Checkpoint& checkpoint);

}  // namespace longshore::trainer
