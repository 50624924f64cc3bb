#include "longshore/trainer/config/data_paths.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "longshore/data/files/text_format.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrain = "train";

// Words for the same split. Hugging Face's datasets has these.
const std::array<std::vector<std::string>, 3> kSplits{
    {{kTrain, "training"}, {"validation", "valid", "val", "dev", "eval"}, {"test", "testing"}}};

std::vector<std::string> words_for(const std::string& split) {
  for (const std::vector<std::string>& words : kSplits)
    if (std::ranges::find(words, split) != words.end()) return words;
  return {split};
}

// Whether one of the words is in the name, with no letter before or behind it.
bool has_word(const std::string& name, std::span<const std::string> words) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
      const size_t end = at + word.size();
      const bool begins = at == 0 || !std::isalpha(static_cast<unsigned char>(name[at - 1]));
      const bool ends = end == name.size() || !std::isalpha(static_cast<unsigned char>(name[end]));
      if (begins && ends) return true;
    }
    return false;
  });
}

bool has_any_word(const std::string& name) {
  return std::ranges::any_of(kSplits, [&](const auto& words) { return has_word(name, words); });
}

// What datasets' save_to_disk() writes beside the data, and what it caches there.
bool is_beside_data(const fs::path& path) {
  constexpr const char* kInfo = "dataset_info.json";
  const std::string name = path.filename().string();
  if (name == kInfo || name == "dataset_dict.json" || name == "dataset_infos.json") return true;
  const bool may_be =
      name == "state.json" || (name.starts_with("cache-") && name.ends_with(".arrow"));
  std::error_code error;
  return may_be && fs::exists(path.parent_path() / kInfo, error);
}

bool is_data(const fs::path& path) {
  return (data::is_text(path) && !is_beside_data(path)) || path.extension() == ".tokens";
}

std::vector<fs::path> matches(const fs::path& pattern) {
  glob_t found = {};
  std::vector<fs::path> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  std::erase_if(paths, [](const fs::path& path) { return fs::is_directory(path); });
  return paths;
}

// Of the folder, from it on.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    if (is_hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (!is_hidden && entry->is_regular_file(error) && is_data(entry->path()))
      files.push_back(entry->path().lexically_relative(folder));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<fs::path> data_paths(const fs::path& entry, const std::string& split) {
  std::error_code error;
  const bool is_pattern = entry.string().find_first_of("*?[") != std::string::npos;
  if (is_pattern && !fs::exists(entry, error)) return matches(entry);
  if (!fs::is_directory(entry, error)) return {entry};
  std::vector<fs::path> files = files_below(entry);
  const std::vector<std::string> words = words_for(split);
  const bool names_splits = std::ranges::any_of(files, [&](const fs::path& file) {
    return has_any_word(file.string()) || has_word(file.string(), words);
  });
  std::erase_if(files, [&](const fs::path& file) {
    return names_splits ? !has_word(file.string(), words) : words.front() != kTrain;
  });
  for (fs::path& file : files) file = entry / file;
  return files;
}

}  // namespace longshore::trainer
