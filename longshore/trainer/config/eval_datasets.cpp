#include "longshore/trainer/config/eval_datasets.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/text_format.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

std::string name_of(fs::path path) {
  if (!path.has_filename()) path = path.parent_path();  // "longshore/data/"
  fs::path name = path.filename();
  if (data::compression_of(name) != data::Compression::none) name = name.stem();
  return name.stem().string();
}

}  // namespace

bool is_set_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxSetNameBytes && printable(name) == name &&
         name.find_first_of("/=") == std::string::npos;
}

std::vector<EvalDataset> named_eval_datasets(const Config& config) {
  constexpr const char* kKey = "eval_dataset_path";
  std::vector<EvalDataset> sets = config.eval_dataset_path;
  if (sets.size() == 1) return sets;
  for (size_t i = 0; i < sets.size(); ++i) {
    EvalDataset& set = sets[i];
    const std::string nearest = "; nearest: NAME=" + path_text(set.path);
    if (set.name.empty()) set.name = name_of(set.path);
    if (!is_set_name(set.name))
      throw ConfigError(location(config, kKey) + ": found " + path_text(set.path) +
                        ", whose name cannot be that of a set; expected a name before it" +
                        nearest);
    const auto same = std::ranges::find(sets.begin(), sets.begin() + std::ptrdiff_t(i), set.name,
                                        &EvalDataset::name);
    if (same != sets.begin() + std::ptrdiff_t(i))
      throw ConfigError(location(config, kKey) + ": found " + path_text(same->path) + " and " +
                        path_text(set.path) + ", both called " + in_quotes(set.name) +
                        "; expected different names" + nearest);
  }
  return sets;
}

}  // namespace longshore::trainer
