#include "longshore/trainer/weights/model_files.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/files/small_file.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/config/hf_config.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdditionalTemplates = "additional_chat_templates";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

void add(const fs::path& folder, const std::string& name, ModelFiles& files,
         uint64_t most_mib = kMostMib) {
  if (is_there(folder / name)) files.set(name, data::read_small_file(folder / name, most_mib));
}

// Of those that are found by a part of their names there may be any number.
constexpr size_t kMostFound = 64;
constexpr uint64_t kMostFoundMib = 1;

// What the model's makers ask to be passed on.
bool is_licence(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"license", "licence", "notice", "use_policy"},
      [&](std::string_view start) { return name.starts_with(start); });
}

// The names of the folder's files that are `wanted`, in order.
template <class F>
std::vector<std::string> names_in(const fs::path& folder, F wanted) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.is_regular_file(error) && wanted(entry.path()))
      names.push_back(entry.path().filename().string());
  if (names.size() > kMostFound)
    throw DataError(path_text(folder) + ": found " + plural(std::ssize(names), "file") +
                    " such as " + in_quotes(names[0]) + ", expected at most " +
                    std::to_string(kMostFound));
  std::ranges::sort(names);
  return names;
}

void add_of_model(const fs::path& source, models::Images images, ModelFiles& files) {
  const HfConfig config = read_hf_config(source, models::UnknownKeys::ignore, images);
  files.config = models::with_both_spellings(config.text);
  if (config.decoder.vision)
    for (const char* name : {"preprocessor_config.json", "processor_config.json"})
      add(source, name, files, kMostParsedMib);
  add(source, "generation_config.json", files, kMostParsedMib);
  for (const std::string& name :
       names_in(source, [](const fs::path& path) { return is_licence(path.filename().string()); }))
    add(source, name, files, kMostFoundMib);
}

void add_of_tokenizer(const fs::path& tokenizer, ModelFiles& files) {
  const bool is_folder = fs::is_directory(tokenizer);
  const fs::path folder = is_folder ? tokenizer : tokenizer.parent_path();
  if (is_folder) {
    for (const char* name : {"tokenizer.json", "tokenizer.model"}) add(folder, name, files);
  } else {
    std::string bytes = data::read_small_file(tokenizer, kMostMib);
    const bool is_json = data::is_tokenizer_json(tokenizer, bytes);
    files.set(is_json ? "tokenizer.json" : "tokenizer.model", std::move(bytes));
  }
  for (const char* name : {"vocab.json", "merges.txt", "special_tokens_map.json",
                           "added_tokens.json", "chat_template.jinja"})
    add(folder, name, files);
  add(folder, "tokenizer_config.json", files, kMostParsedMib);
  const auto is_template = [](const fs::path& path) { return path.extension() == ".jinja"; };
  for (const std::string& name : names_in(folder / kAdditionalTemplates, is_template))
    add(folder, std::string(kAdditionalTemplates) + "/" + name, files, kMostFoundMib);
}

}  // namespace

const std::string* ModelFiles::find(const std::string& name) const {
  const auto found = std::ranges::find(others, name, &SmallFile::name);
  return found == others.end() ? nullptr : &found->text;
}

void ModelFiles::set(const std::string& name, std::string text) {
  const auto found = std::ranges::find(others, name, &SmallFile::name);
  if (found != others.end())
    found->text = std::move(text);
  else
    others.push_back({name, std::move(text)});
}

void write_others(const ModelFiles& files, const fs::path& folder) {
  for (const SmallFile& file : files.others) {
    const fs::path path = folder / file.name;
    fs::create_directories(path.parent_path());
    write_file(path, file.text);
  }
}

ModelFiles read_model_files(const fs::path& source, const fs::path& tokenizer,
                            models::Images images) {
  ModelFiles files;
  if (!source.empty()) add_of_model(source, images, files);
  if (!tokenizer.empty()) add_of_tokenizer(tokenizer, files);
  return files;
}

}  // namespace longshore::trainer
