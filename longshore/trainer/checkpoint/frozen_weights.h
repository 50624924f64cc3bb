// Weights are known again by their hash: frozen ones, which a checkpoint of adapters has not, and
// those that a run begins with.
#pragma once

#include <filesystem>
#include <string>

#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

// A hash of all weights as steps read them, whatever they are split over. Every process takes part.
std::string weights_hash(const offload::ParameterLayout& layout,
                         const offload::Arguments& arguments, World& world);

// The same of all frozen weights where adapters alone train: a checkpoint of these goes with that
// model only. "" otherwise, since the checkpoint has all weights.
std::string frozen_weights_hash(const offload::ParameterLayout& layout,
                                const offload::Arguments& arguments, World& world);

// Throws a DataError where the folder that a run's adapter is for holds other weights than those
// that it was trained beside: reads all of them, and has those of a layer in memory at a time. Runs
// that have saved a whole model, and adapters that were copied into a run's folder, need no folder
// to be as it was.
void require_base_unchanged(const std::filesystem::path& run);

}  // namespace longshore::trainer
