#include "trainer/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "data/content_hash.h"
#include "data/file_mapping.h"
#include "trainer/config/keys.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kHashKey = "xxh3_128";

std::string dump(const ordered_json& json) { return json.dump(2) + "\n"; }

void require_range(const std::string& name, int64_t found, int64_t most) {
  if (found < 0 || found > most)
    throw DataError(name + ": found " + std::to_string(found) + ", expected 0 to " +
                    std::to_string(most));
}

// Numbers have the bounds of the config's keys.
void check_numbers(const Manifest& manifest) {
  require_range("step", manifest.step, kMaxSteps);
  require_range("seed", manifest.seed, std::numeric_limits<int64_t>::max());
  require_range("batches", manifest.batches, manifest.step * kMaxBatch);
  if (manifest.clipping_norm && !(*manifest.clipping_norm >= 0))
    throw DataError("clipping_norm: found " + std::to_string(*manifest.clipping_norm) +
                    ", expected at least 0");
  for (const SavedFile& file : manifest.files)
    require_range("files: " + excerpt(file.path) + ": bytes", file.bytes,
                  std::numeric_limits<int64_t>::max());
}

Manifest read(const ordered_json& json) {
  if (const int format = json.at("format"); format != kFormat)
    throw DataError("format: found " + std::to_string(format) + ", expected " +
                    std::to_string(kFormat));
  Manifest manifest{.product_version = json.at("product_version"),
                    .step = json.at("step"),
                    .seed = json.at("seed"),
                    .batches = json.at("batches"),
                    .data = json.at("data"),
                    .frozen_weights = json.at("frozen_weights"),
                    .config = json.at("config"),
                    .files = {}};
  if (json.contains("clipping_norm")) manifest.clipping_norm = json.at("clipping_norm");
  for (const ordered_json& file : json.at("files"))
    manifest.files.push_back(
        {.path = file.at("path"), .bytes = file.at("bytes"), .hash = file.at(kHashKey)});
  check_numbers(manifest);
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
  if (manifest.clipping_norm) json["clipping_norm"] = *manifest.clipping_norm;
  json[kHashKey] = data::content_hash(dump(json));
  return dump(json);
}

Manifest parse_manifest(std::string_view text) {
  try {
    const Manifest manifest = read(ordered_json::parse(text));
    if (manifest_text(manifest) != text)
      throw DataError("found something else than what was written, by its hash");
    return manifest;
  } catch (const nlohmann::json::parse_error& error) {
    throw DataError("no valid JSON at byte " + std::to_string(error.byte));
  } catch (const nlohmann::json::exception&) {
    throw DataError("no valid manifest: found a field that is missing or of another type");
  }
}

Manifest read_manifest(const fs::path& folder) {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  const fs::path path = folder / kManifestFile;
  const data::FileMapping mapping(path, data::Access::from_front_to_back);
  try {
    if (mapping.text().size() > kMaxBytes)
      throw DataError("found " + std::to_string(mapping.text().size()) +
                      " bytes, expected at most " + std::to_string(kMaxBytes));
    return parse_manifest(mapping.text());
  } catch (const DataError& error) {
    throw DataError(path_text(path) + ": " + error.what());
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
  for (const SavedFile& file : manifest.files) {
    std::error_code error;
    const auto bytes = static_cast<int64_t>(fs::file_size(folder / file.path, error));
    if (error)
      throw DataError(path_text(folder / file.path) + ": found " + error.message() +
                      ", expected a file of " + std::to_string(file.bytes) + " bytes");
    if (bytes != file.bytes)
      throw DataError(path_text(folder / file.path) + ": found " + std::to_string(bytes) +
                      " bytes, expected " + std::to_string(file.bytes));
  }
  parallel_for(manifest.files.size(), [&](size_t i) {
    const SavedFile& file = manifest.files[i];
    if (const std::string hash = data::file_hash(folder / file.path); hash != file.hash)
      throw DataError(path_text(folder / file.path) + ": found the hash " + hash + ", expected " +
                      excerpt(file.hash) + ": it is not what was written");
  });
}

}  // namespace longshore::trainer
