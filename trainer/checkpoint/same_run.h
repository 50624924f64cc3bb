// require_same_run() checks whether a run may go on from a checkpoint: only where that is the same
// as never having stopped.
#pragma once

#include <string>
#include <vector>

#include "offload/execution/arguments.h"
#include "offload/lowering/parameter_layout.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/config.h"
#include "trainer/distributed/world.h"

namespace longshore::trainer {

// What the manifests of a run's checkpoints have in common. `dtype: auto` and a schedule as long as
// the run stand as what they came to.
Manifest describe_run(const Config& config, models::Dtype dtype, std::vector<std::string> data,
                      std::string frozen_weights);

// A hash of all frozen weights where adapters alone train: a checkpoint of these goes with that
// model only. "" otherwise, since the checkpoint has all weights. Every process takes part.
std::string frozen_weights_hash(const offload::ParameterLayout& layout,
                                const offload::Arguments& arguments, World& world);

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
