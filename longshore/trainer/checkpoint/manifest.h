// A Manifest describes a checkpoint, in manifest.json, which is written last. A folder is a
// checkpoint of the step that its manifest says, and whole when every file is there with the bytes
// that the manifest says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/rows/streamed_rows.h"
#include "longshore/trainer/checkpoint/best_so_far.h"

namespace longshore::trainer {

struct SavedFile {
  std::string path;  // from the checkpoint's folder
  int64_t bytes = 0;
  std::string hash;  // longshore/data/files/content_hash.h

  bool operator==(const SavedFile&) const = default;
};

struct Manifest {
  std::string product_version;
  int64_t step = 0;  // steps that are done
  int64_t seed = 0;
  int64_t batches = 0;                        // micro-batches that they have read
  std::optional<double> clipping_norm;        // TrainStep::clipping_norm()
  std::optional<BestSoFar> best;              // where keep_best or early stopping goes by one
  std::vector<std::string> data;              // TrainingData::identity
  std::vector<data::ShardRecord> shards;      // shard_records(), of some of that
  std::string frozen_weights;                 // see frozen_weights_hash()
  std::string reference = {};                 // ReferenceValues::origin(), where there are any
  std::map<std::string, std::string> config;  // all keys, with values as config.yml has them
  std::vector<SavedFile> files;

  bool operator==(const Manifest&) const = default;
};

inline constexpr const char* kManifestFile = "manifest.json";

// JSON whose last entry is a hash of all that stands before it.
std::string manifest_text(const Manifest& manifest);

// Throws a DataError, which does not name the file, for everything that manifest_text did not give:
// there is no other way to write a manifest, so a single bit that has changed shows.
Manifest parse_manifest(std::string_view text);

// Reads the manifest of the checkpoint in that folder. Throws a DataError that names the file.
Manifest read_manifest(const std::filesystem::path& folder);

// The files in a folder and the folders in it, but for a manifest, by path.
std::vector<SavedFile> files_of(const std::filesystem::path& folder);

// Throws a DataError that names a file that is not as the manifest says, with both sizes or
// hashes. Sizes are looked at first: they cost nothing.
void verify_files(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace longshore::trainer
