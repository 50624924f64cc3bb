// A checkpoint holds a run's state in a folder of its own:
//
//   model/                 Hugging Face's folder with all weights in weight_dtype; missing where
//                          adapters alone train
//   adapter/               peft's folder, where adapters train
//   optimizer.safetensors  longshore/trainer/checkpoint/optimizer_state.h
//   manifest.json          longshore/trainer/checkpoint/manifest.h
//
// The folder has its name when it is whole; see AtomicFolder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/log.h"
#include "longshore/models/families/decoder.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/checkpoint/manifest.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/weights/hf_folder.h"

namespace longshore::trainer {

// The model and config that a state belongs to.
struct SavedModel {
  const Config& config;
  const models::DecoderConfig& model;
  const offload::ParameterLayout& layout;  // of `model`
};

// Writes the weights and moments in `arguments`, and `files` in the same folder. `manifest` has all
// but its files; what was written is returned. Host memory: a piece of one tensor. Throws what
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

// The checkpoint in that very folder, with all its files verified; it holds regular files alone.
// Throws a DataError that names the file, or for a run's folder the checkpoints in it.
Checkpoint open_checkpoint(const std::filesystem::path& folder);

// Verifies what model/ and adapter/ of a run's folder lead to, by the manifests of the checkpoints
// that they are parts of; what was copied to another place has none. Throws a DataError that names
// the file.
void verify_trained(const std::filesystem::path& run);

// "00000040".
std::string checkpoint_name(int64_t step);

// What happens where the newest checkpoint is damaged: a DataError that names the file is thrown,
// or the damage is logged, ".damaged" is appended to the name of the checkpoint's folder, and the
// checkpoint of the step before is taken.
enum class OnDamage { refuse, fall_back };

// The checkpoint in `folder` whose manifest has the latest step, with all its files verified;
// nothing where the folder has no checkpoints. Throws a DataError where all of them are damaged.
std::optional<Checkpoint> newest_checkpoint(const std::filesystem::path& folder, OnDamage on_damage,
                                            const Log& log);

// Links of the parts' names in the run's folder, which holds the checkpoint, lead to its parts;
// those that led elsewhere are replaced, each at once. What has a part's name and is no link, as in
// a copy of a run that took what links lead to, gets ".before" appended to its name: it is not of
// this checkpoint. Throws FileError and fs::filesystem_error.
void link_parts(const std::filesystem::path& directory, const Checkpoint& checkpoint);

// The same of the link `best`, which leads to that checkpoint.
void link_best(const std::filesystem::path& directory, const std::filesystem::path& checkpoint);

// The checkpoint in the run's folder that `best` leads to; "" where there is no such link.
std::filesystem::path best_checkpoint(const std::filesystem::path& directory);

// Removes all but the `keep` newest (-1: none) and the one that is `spared`, if any. One that is
// being removed has no checkpoint's name.
void remove_old_checkpoints(const std::filesystem::path& folder, int64_t keep,
                            const std::filesystem::path& spared = {});

}  // namespace longshore::trainer
