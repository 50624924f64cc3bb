// A run's state in a folder of its own:
//
//   model/                 Hugging Face's folder with all weights in weight_dtype; missing where
//                          adapters alone train
//   adapter/               peft's folder, where adapters train
//   optimizer.safetensors  trainer/checkpoint/optimizer_state.h
//   manifest.json          trainer/checkpoint/manifest.h
//
// The folder has its name when it is whole; see AtomicFolder.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/decoder.h"
#include "offload/arguments.h"
#include "offload/parameter_layout.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/config/config.h"
#include "trainer/weights/hf_folder.h"

namespace longshore::trainer {

// Whose state it is.
struct SavedModel {
  const Config& config;
  const models::DecoderConfig& model;
  const offload::ParameterLayout& layout;  // of `model`
};

// Writes the weights and moments in `arguments`, and `files` beside them. `manifest` has all but
// its files; what was written is returned. Host memory: a piece of one tensor. Throws what
// export_parameters, write_adapter and write_optimizer_state throw; then nothing is left behind.
Manifest write_checkpoint(const std::filesystem::path& to, const SavedModel& saved,
                          const ModelFiles& files, const offload::ArgumentReader& arguments,
                          Manifest manifest);

struct Checkpoint {
  std::filesystem::path folder;
  Manifest manifest;

  std::filesystem::path model() const;      // empty where there is none
  std::filesystem::path adapter() const;    // likewise
  std::filesystem::path optimizer() const;  // the file
};

// The checkpoint in that very folder, with all its files verified. Throws a DataError that names
// the file, or for a run's folder the checkpoints in it.
Checkpoint open_checkpoint(const std::filesystem::path& folder);

// In a run's folder, where its checkpoints are; each is named by its step.
inline constexpr const char* kCheckpointsFolder = "checkpoints";
std::string checkpoint_name(int64_t step);

// Of those in `folder` the one of the latest step, as manifests say it, with all its files
// verified; nothing where there is none. Where it is damaged, that is a DataError that names the
// file; but if `may_fall_back` it is said, the damaged folder gets ".damaged" behind its name, and
// the one before is looked at. A DataError as well where all are damaged.
std::optional<Checkpoint> newest_checkpoint(const std::filesystem::path& folder, bool may_fall_back,
                                            const std::function<void(const std::string&)>& say);

// Removes all but the `keep` newest (-1: none). One that is being removed has no checkpoint's name.
void remove_old_checkpoints(const std::filesystem::path& folder, int64_t keep);

}  // namespace longshore::trainer
