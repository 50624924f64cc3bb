#include "longshore/trainer/checkpoint/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "longshore/base/error.h"
#include "longshore/base/file_descriptor.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/parallel.h"
#include "longshore/base/printable.h"
#include "longshore/base/progress.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/trainer/config/keys.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kHashKey = "xxh3_128";
// All tensors are in files of 5 GB: so many would hold 80 TB. An entry takes some 120 bytes.
constexpr size_t kMostFiles = size_t{1} << 14, kMostEntryBytes = 256;
constexpr size_t kMostBytes = kMostFiles * kMostEntryBytes;
constexpr int64_t kMostRows = int64_t{1} << 40;  // of a shard
// Written anew, a key is compared with all before it.
constexpr size_t kMostKeys = 4096;

std::string dump(const ordered_json& json) { return json.dump(2) + "\n"; }

void require_range(const std::string& name, int64_t found, int64_t most) {
  if (found < 0 || found > most)
    throw DataError(name + ": found " + std::to_string(found) + ", expected 0 to " +
                    std::to_string(most));
}

// Numbers have the bounds of the config's keys. Files are in the checkpoint's folder.
void check(const Manifest& manifest) {
  require_range("step", manifest.step, kMaxSteps);
  require_range("seed", manifest.seed, std::numeric_limits<int64_t>::max());
  require_range("batches", manifest.batches, manifest.step * kMaxBatch);
  if (manifest.clipping_norm && !(*manifest.clipping_norm >= 0))
    throw DataError("clipping_norm: found " + std::to_string(*manifest.clipping_norm) +
                    ", expected at least 0");
  if (manifest.best) {
    require_range("best: evaluated", manifest.best->evaluated, manifest.step);
    require_range("best: step", manifest.best->step, manifest.best->evaluated);
    require_range("best: without_improvement", manifest.best->without_improvement,
                  manifest.best->evaluated);
  }
  if (manifest.config.size() > kMostKeys)
    throw DataError("config: found " + std::to_string(manifest.config.size()) +
                    " keys, expected at most " + std::to_string(kMostKeys));
  for (const data::ShardRecord& record : manifest.shards) {
    require_range("shards: shard", record.shard, std::ssize(manifest.data) - 1);
    require_range("shards: rows", record.rows, kMostRows);
  }
  for (const SavedFile& file : manifest.files) {
    if (!is_path_below(file.path))
      throw DataError("files: found " + in_quotes(file.path) +
                      ", expected the path of a file in the checkpoint's folder");
    require_range("files: " + excerpt(file.path) + ": bytes", file.bytes,
                  std::numeric_limits<int64_t>::max());
  }
}

// JSON holds larger integers than int64_t does, which would become others.
int64_t integer(const json& object, const char* key) {
  const auto& value = object.at(key);
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    throw DataError(std::string(key) + ": found " + value.dump() + ", expected at most " +
                    std::to_string(std::numeric_limits<int64_t>::max()));
  return value;
}

BestSoFar read_best(const json& json) {
  return {.metric = json.at("metric"),
          .evaluated = integer(json, "evaluated"),
          .step = integer(json, "step"),
          .value = json.at("value"),
          .without_improvement = integer(json, "without_improvement")};
}

Manifest read(const json& json) {
  if (const int64_t format = integer(json, "format"); format != kFormat)
    throw DataError("format: found " + std::to_string(format) + ", expected " +
                    std::to_string(kFormat));
  Manifest manifest{.product_version = json.at("product_version"),
                    .step = integer(json, "step"),
                    .seed = integer(json, "seed"),
                    .batches = integer(json, "batches"),
                    .data = json.at("data"),
                    .frozen_weights = json.at("frozen_weights"),
                    .config = json.at("config"),
                    .files = {}};
  if (json.contains("shards"))
    for (const auto& shard : json.at("shards"))
      manifest.shards.push_back({.shard = integer(shard, "shard"),
                                 .rows = integer(shard, "rows"),
                                 .identity = shard.at("identity")});
  if (json.contains("clipping_norm")) manifest.clipping_norm = json.at("clipping_norm");
  if (json.contains("reference")) manifest.reference = json.at("reference");
  if (json.contains("best")) manifest.best = read_best(json.at("best"));
  for (const auto& file : json.at("files"))
    manifest.files.push_back(
        {.path = file.at("path"), .bytes = integer(file, "bytes"), .hash = file.at(kHashKey)});
  check(manifest);
  return manifest;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  ordered_json files = ordered_json::array();
  for (const SavedFile& file : manifest.files)
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {kHashKey, file.hash}});
  ordered_json json{{"format", kFormat},
                    {"product_version", manifest.product_version},
                    {"step", manifest.step},
                    {"seed", manifest.seed},
                    {"batches", manifest.batches},
                    {"data", manifest.data},
                    {"frozen_weights", manifest.frozen_weights},
                    {"config", manifest.config},
                    {"files", files}};
  if (!manifest.reference.empty()) json["reference"] = manifest.reference;
  if (manifest.clipping_norm) json["clipping_norm"] = *manifest.clipping_norm;
  if (const std::optional<BestSoFar>& best = manifest.best)
    json["best"] = {{"metric", best->metric},
                    {"evaluated", best->evaluated},
                    {"step", best->step},
                    {"value", best->value},
                    {"without_improvement", best->without_improvement}};
  for (const data::ShardRecord& record : manifest.shards)
    json["shards"].push_back(
        {{"shard", record.shard}, {"rows", record.rows}, {"identity", record.identity}});
  json[kHashKey] = data::content_hash(dump(json));
  return dump(json);
}

Manifest parse_manifest(std::string_view text) {
  try {
    const Manifest manifest = read(json_tree(text));
    if (manifest_text(manifest) != text)
      throw DataError("found something else than what was written, by its hash");
    return manifest;
  } catch (const nlohmann::json::exception&) {
    throw DataError("no valid manifest: found a field that is missing or of another type");
  }
}

Manifest read_manifest(const fs::path& folder) {
  const std::string text = read_inside(folder, kManifestFile, kMostBytes, "no checkpoint has more");
  try {
    return parse_manifest(text);
  } catch (const DataError& error) {
    throw DataError(path_text(folder / kManifestFile) + ": " + error.what());
  }
}

std::vector<SavedFile> files_of(const fs::path& folder) {
  std::vector<SavedFile> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().lexically_relative(folder).generic_string();
    if (!entry.is_regular_file() || path == kManifestFile) continue;
    files.push_back({.path = path, .bytes = static_cast<int64_t>(entry.file_size()), .hash = {}});
  }
  parallel_for(files.size(),
               [&](size_t i) { files[i].hash = data::file_hash(folder / files[i].path); });
  std::ranges::sort(files, {}, &SavedFile::path);
  return files;
}

void verify_files(const fs::path& folder, const Manifest& manifest) {
  auto opened = [&](const SavedFile& saved) {
    FileDescriptor file = open_inside(folder, saved.path, O_RDONLY);
    if (!file.is_open())
      throw DataError(path_text(folder / saved.path) + ": found " + std::strerror(errno) +
                      ", expected a file of " + std::to_string(saved.bytes) + " bytes");
    return file;
  };
  for (const SavedFile& saved : manifest.files) {
    const FileDescriptor file = opened(saved);
    struct stat status;
    if (fstat(file.number(), &status) == 0 && status.st_size != saved.bytes)
      throw DataError(path_text(folder / saved.path) + ": found " + std::to_string(status.st_size) +
                      " bytes, expected " + std::to_string(saved.bytes));
  }
  double bytes = 1;
  for (const SavedFile& saved : manifest.files) bytes += static_cast<double>(saved.bytes);
  std::atomic<int64_t> bytes_read = 0;
  const Progress progress("verifying the checkpoint",
                          [&] { return static_cast<double>(bytes_read) / bytes; });
  parallel_for(manifest.files.size(), [&](size_t i) {
    const SavedFile& saved = manifest.files[i];
    const fs::path path = folder / saved.path;
    if (const std::string hash = data::file_hash(opened(saved), path, &bytes_read);
        hash != saved.hash)
      throw DataError(path_text(path) + ": found the hash " + hash + ", expected " +
                      excerpt(saved.hash) + ": it is not what was written");
  });
}

}  // namespace longshore::trainer
