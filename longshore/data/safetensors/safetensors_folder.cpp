#include "longshore/data/safetensors/safetensors_folder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <system_error>
#include <utility>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/base/strict_json.h"
#include "longshore/data/files/file_mapping.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = kMaxSafetensorsHeaderBytes;
constexpr int kMaxIndexDepth = 32;

class IndexReader : public StrictJson {
 public:
  std::map<std::string, std::string> take() {
    if (!map_seen_) throw DataError("no weight_map");
    return std::move(files_);
  }

  bool null() override { return ignore("null"); }
  bool boolean(bool) override { return ignore("a boolean"); }
  bool number_integer(number_integer_t value) override { return ignore(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return ignore(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return ignore(text); }

  bool start_array(size_t) override {
    ignore("a list");
    return deeper();
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool start_object(size_t) override {
    if (in_map()) refuse("an object");
    return deeper();
  }

  bool end_object() override {
    --depth_;
    return true;
  }

  bool key(string_t& key) override {
    if (depth_ == 1) {
      key_is_map_ = key == "weight_map";
      if (key_is_map_ && std::exchange(map_seen_, true))
        throw DataError("weight_map: found twice, expected once");
    } else if (in_map()) {
      if (files_.size() == kMaxSafetensorsTensors)
        throw DataError("weight_map: expected at most " + std::to_string(kMaxSafetensorsTensors) +
                        " entries, found more");
      tensor_ = std::move(key);
    }
    return true;
  }

  bool string(string_t& value) override {
    if (!in_map()) return ignore("a string");
    while (value.starts_with("./")) value.erase(0, 2);
    if (value.empty() || value == "." || value == ".." || value.find('/') != std::string::npos ||
        value.find('\0') != std::string::npos)
      refuse(in_quotes(value));
    const auto [at, is_new] = files_.emplace(std::move(tensor_), std::move(value));
    if (!is_new)
      throw DataError("weight_map: " + in_quotes(at->first) + ": found twice, expected once");
    return true;
  }

 private:
  bool in_map() const { return key_is_map_ && depth_ == 2; }

  std::string expectation() const override {
    if (in_map()) return "weight_map: " + in_quotes(tensor_) + ": expected the name of a file";
    return key_is_map_ ? "weight_map: expected an object" : "expected an object with a weight_map";
  }

  // Keys other than weight_map are ignored.
  bool ignore(const std::string& found) const {
    if (depth_ == 0 || key_is_map_) refuse(found);
    return true;
  }

  bool deeper() {
    if (++depth_ > kMaxIndexDepth)
      throw DataError("nested deeper than " + std::to_string(kMaxIndexDepth));
    return true;
  }

  int depth_ = 0;
  bool key_is_map_ = false;  // of the outermost object
  bool map_seen_ = false;
  std::string tensor_;
  std::map<std::string, std::string> files_;
};

std::map<std::string, std::string> read_index(const fs::path& path) {
  const FileMapping mapping(path, Access::from_front_to_back);
  try {
    if (mapping.text().size() > kMaxIndexBytes)
      throw DataError(std::to_string(mapping.text().size()) + " bytes, expected at most " +
                      std::to_string(kMaxIndexBytes));
    return parse_safetensors_index(mapping.text());
  } catch (const DataError& error) {
    throw DataError(path_text(path) + ": " + error.what());
  }
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// The tensors of the files that the index at `path` names, and of these alone.
std::vector<const SafetensorsTensor*> open_index(const fs::path& path,
                                                 std::deque<SafetensorsFile>& files) {
  const std::map<std::string, std::string> index = read_index(path);
  std::set<std::string_view> file_names;
  for (const auto& [tensor, file] : index) file_names.insert(file);

  ProblemList problems;
  std::set<std::string_view> unreadable, found;
  std::vector<const SafetensorsTensor*> tensors;
  for (std::string_view file_name : file_names) {
    try {
      files.emplace_back(path.parent_path() / file_name);
    } catch (const DataError& error) {
      problems.add(error.what());
      unreadable.insert(file_name);
      continue;
    }
    for (const SafetensorsTensor& tensor : files.back().tensors()) {
      const auto entry = index.find(tensor.name);
      if (entry == index.end()) {
        problems.add(in_quotes(tensor.name) + " is in " + in_quotes(file_name) +
                     ", but not in the index");
      } else if (entry->second != file_name) {
        problems.add(in_quotes(tensor.name) + " is in " + in_quotes(file_name) +
                     ", the index says in " + in_quotes(entry->second));
      } else {
        found.insert(tensor.name);
        tensors.push_back(&tensor);
      }
    }
  }
  for (const auto& [tensor, file] : index)
    if (!found.contains(tensor) && !unreadable.contains(file))
      problems.add(in_quotes(tensor) + " is not in " + in_quotes(file) + ", as the index says");
  if (!problems.empty())
    throw DataError(path_text(path) + ": index and files do not agree:\n  " + problems.text());
  return tensors;
}

// Weights in another format, and how to come by safetensors; "" where there are none.
std::string what_else_holds_weights(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string extension = entry.path().extension().string();
    constexpr std::array kOthers{".bin", ".pth", ".pt", ".gguf", ".h5", ".msgpack", ".safetensors"};
    if (entry.path().filename() != "training_args.bin" &&
        std::ranges::find(kOthers, extension) != kOthers.end())
      found.push_back(entry.path().filename().string());
  }
  if (found.empty()) return "";
  const std::string first = *std::ranges::min_element(found);
  return ", but " + in_quotes(first) +
         ": weights are read from safetensors alone, as transformers writes them with "
         "AutoModelForCausalLM.from_pretrained(DIR, dtype=\"auto\").save_pretrained(NEW_DIR)";
}

// `files` are opened, and own the tensors.
std::vector<const SafetensorsTensor*> open_files(const fs::path& directory,
                                                 std::deque<SafetensorsFile>& files) {
  if (is_there(directory / kSingleFile)) {
    files.emplace_back(directory / kSingleFile);
    std::vector<const SafetensorsTensor*> tensors;
    for (const SafetensorsTensor& tensor : files.back().tensors()) tensors.push_back(&tensor);
    return tensors;
  }
  if (is_there(directory / kIndexFile)) return open_index(directory / kIndexFile, files);
  throw DataError(path_text(directory) + ": found neither " + kSingleFile + " nor " + kIndexFile +
                  what_else_holds_weights(directory));
}

// Deals tensors out to files as huggingface_hub's split_state_dict_into_shards_factory does.
std::vector<std::vector<SafetensorsInfo>> split(std::span<const SafetensorsInfo> tensors,
                                                int64_t max_shard_bytes) {
  std::vector<std::vector<SafetensorsInfo>> shards;
  std::vector<SafetensorsInfo> shard;
  int64_t shard_bytes = 0;
  for (const SafetensorsInfo& tensor : tensors) {
    const int64_t bytes = tensor.bytes();
    if (bytes > max_shard_bytes) {
      shards.push_back({tensor});
      continue;
    }
    if (shard_bytes > max_shard_bytes - bytes) {
      shards.push_back(std::exchange(shard, {}));
      shard_bytes = 0;
    }
    shard.push_back(tensor);
    shard_bytes += bytes;
  }
  if (!shard.empty() || shards.empty()) shards.push_back(std::move(shard));
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return text.data();
}

void write_shard(const fs::path& path, std::vector<SafetensorsInfo> tensors,
                 const AppendData& append_data) {
  tensors = sorted_as_safetensors(std::move(tensors));
  SafetensorsWriter writer(path, tensors);
  for (const SafetensorsInfo& tensor : tensors) append_data(tensor, writer);
  writer.finish();
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const fs::path& directory, const TensorNaming& naming)
    : directory_(directory) {
  std::map<std::string, std::string_view> names_in_files;
  for (const SafetensorsTensor* tensor : open_files(directory, files_)) {
    const std::optional<std::string> name = naming ? naming(tensor->name) : tensor->name;
    if (!name) {
      left_out_.push_back(tensor->name);
      continue;
    }
    const auto [first, is_new] = names_in_files.emplace(*name, tensor->name);
    if (!is_new)
      throw DataError(path_text(directory) + ": found both " + in_quotes(first->second) + " and " +
                      in_quotes(tensor->name) + " for " + in_quotes(*name) +
                      ", expected one of them");
    SafetensorsTensor& named = tensors_[*name] = *tensor;
    named.name = *name;
  }
  std::ranges::sort(left_out_);
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.emplace_back(name);
  return names;
}

const SafetensorsTensor& SafetensorsFolder::at(std::string_view name) const {
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
  const std::string similar = nearest(name, names());
  throw DataError(path_text(directory_) + ": no tensor " + in_quotes(name) +
                  nearest_help(similar.empty() ? "" : in_quotes(similar)));
}

void SafetensorsFolder::rename(std::string_view name, const std::string& other) {
  SafetensorsTensor tensor = at(name);
  if (contains(other)) throw InternalError("tensor " + in_quotes(other) + ": found already");
  tensors_.erase(tensors_.find(name));
  tensor.name = other;
  tensors_.emplace(other, std::move(tensor));
}

std::vector<fs::path> safetensors_files(const fs::path& directory) {
  if (is_there(directory / kSingleFile) || !is_there(directory / kIndexFile))
    return {directory / kSingleFile};
  std::set<fs::path> files{directory / kIndexFile};
  for (const auto& [tensor, file] : read_index(directory / kIndexFile))
    files.insert(directory / file);
  return {files.begin(), files.end()};
}

std::map<std::string, std::string> parse_safetensors_index(std::string_view text) {
  IndexReader reader;
  reader.read(text);
  return reader.take();
}

void write_safetensors_folder(const fs::path& directory, std::span<const SafetensorsInfo> tensors,
                              int64_t max_shard_bytes, const AppendData& append_data) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw FileError(path_text(directory) + ": cannot make the folder: " + error.message());
  for (const char* file : {kSingleFile, kIndexFile})
    if (is_there(directory / file))
      throw DataError(path_text(directory / file) +
                      ": there is a checkpoint already; remove it, or write elsewhere");

  const std::vector<std::vector<SafetensorsInfo>> shards = split(tensors, max_shard_bytes);
  if (shards.size() == 1) {
    write_shard(directory / kSingleFile, shards.front(), append_data);
    return;
  }
  nlohmann::json weight_map = nlohmann::json::object();
  int64_t total_parameters = 0, total_size = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = shard_name(i, shards.size());
    for (const SafetensorsInfo& tensor : shards[i]) {
      const bool is_new = weight_map.emplace(tensor.name, file).second;
      if (!is_new) throw InternalError("tensor " + in_quotes(tensor.name) + ": found twice");
      total_parameters += tensor.element_count();
      total_size += tensor.bytes();
    }
  }
  for (size_t i = 0; i < shards.size(); ++i)
    write_shard(directory / shard_name(i, shards.size()), shards[i], append_data);
  const nlohmann::json index = {
      {"metadata", {{"total_parameters", total_parameters}, {"total_size", total_size}}},
      {"weight_map", weight_map}};
  write_file(directory / kIndexFile, index.dump(2) + "\n");
}

}  // namespace longshore::data
