// The saved state of a run is what cannot be computed again from its config, and is therefore
// saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::trainer {

// Whether adapters train. They are saved in peft's format.
bool saves_adapter(const offload::ParameterLayout& layout);
// Whether weights other than adapters' train. Then all of these, the frozen ones too, are saved in
// Hugging Face's format, so that other tools can load the folder.
bool saves_model(const offload::ParameterLayout& layout);

// The copy of a bucket's weights that the others are made of: masters where there are any.
offload::Copy weights_copy(const offload::Bucket& bucket);

// That copy and what its optimizer keeps; none of a frozen bucket unless saves_model().
std::vector<offload::Copy> saved_copies(const offload::ParameterLayout& layout,
                                        const offload::Bucket& bucket);

// The same of all buckets, as arguments, in an order that is the same on all devices.
struct SavedArgument {
  std::string name;
  offload::Category category;
  int64_t bytes = 0;  // of the part that this device has
  // Ranks of the devices whose parts, one after the other, are the argument of the layout that is
  // whole(): of what several have alike, the first that has it.
  std::vector<int64_t> holders = {};
};
std::vector<SavedArgument> saved_arguments(const offload::ParameterLayout& layout);

// Of these, the ones that a checkpoint takes from this device.
std::vector<SavedArgument> given_arguments(const offload::ParameterLayout& layout);

// The host memory that writing takes besides, of the process that writes. Two files are written at
// a time, each through a piece of 4 MiB, its converted numbers, and a buffer of 1 MiB
// (kWeightPieceElements, AtomicFile); the rest is for headers and the manifest. Hashing what was
// written takes less.
inline constexpr int64_t kSaveBytes = int64_t{20} << 20;

}  // namespace longshore::trainer
