#include "longshore/trainer/config/inputs.h"

#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/program_folder.h"
#include "longshore/trainer/config/data_paths.h"
#include "longshore/trainer/config/objective.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

// The path of the entry in the same folder whose name is nearest to that of `path`; "" if none is
// near.
std::string nearest_path(const fs::path& path) {
  std::error_code error;
  const fs::path folder = path.parent_path();
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  const std::string name = nearest(path.filename().string(), names);
  return name.empty() ? "" : (folder / name).string();
}

// What makes the quickstart's data, where that is what is missing.
std::string made_by(const fs::path& path) {
  if (!path.parent_path().native().ends_with(".data/quickstart")) return "";
  return is_installed() ? "longshore quickstart-data makes it here"
                        : "scripts/quickstart_data makes it";
}

enum class Kind { file, folder, either };

// Adds what is wrong with the path of a key, if anything.
void check(const Config& config, const std::string& key, const fs::path& path, Kind kind,
           ProblemList& problems) {
  if (path.empty()) return;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const Kind other = fs::is_directory(status) ? Kind::file : Kind::folder;
  if (fs::exists(status) && kind != other) return;
  const std::string found = !fs::exists(status)        ? ", which is not there"
                            : fs::is_directory(status) ? ", a folder"
                                                       : ", a file";
  std::string near = fs::exists(status) ? "" : path_text(nearest_path(path));
  if (near.empty() && !fs::exists(status)) near = made_by(path);
  const std::string expected = kind == Kind::file     ? "a file"
                               : kind == Kind::folder ? "a folder"
                                                      : "a file or a folder";
  problems.add(location(config, key) + ": found " + path_text(path) + found + ", expected " +
               expected + nearest_help(near));
}

// The same of an entry that may stand for several files.
void check_data(const Config& config, const std::string& key, const fs::path& entry,
                const std::string& split, ProblemList& problems) {
  if (entry.empty()) return;
  const std::vector<fs::path> paths = data_paths(entry, split);
  for (const fs::path& path : paths) check(config, key, path, Kind::file, problems);
  if (!paths.empty()) return;
  std::error_code error;
  problems.add(
      location(config, key) + ": found " + path_text(entry) +
      (fs::is_directory(entry, error)
           ? ", a folder without files of " + in_quotes(split) +
                 ", expected some of .jsonl, .json, .csv, .tsv, .parquet, .arrow, .txt or .tokens"
           : ", which matches no file, expected a pattern that does"));
}

bool may_resume(const Config& config) {
  std::error_code error;
  return !config.run_name.empty() &&
         fs::exists(config.base_output_directory / config.run_name, error);
}

// Whether a run that goes on has a reference that is as training began.
bool reads_start_again(const Config& config) {
  const Reference reference = reference_of(config);
  return has_reference(config) && reference != Reference::adapter_off &&
         reference != Reference::precomputed && config.reference_parameters_path.empty();
}

}  // namespace

void find_missing_inputs(const Config& config, ProblemList& problems) {
  if (!config.dataset_path.empty() && !config.origins.contains("dataset_type"))
    problems.add(location(config, "dataset_path") +
                 ": found no dataset_type beside it, expected documents or tokens; by default "
                 "a run trains on random tokens");
  if (config.dataset_type != DatasetType::synthetic)
    for (const DatasetFile& entry : config.dataset_path)
      check_data(config, "dataset_path", entry.path, config.train_split, problems);
  for (const EvalDataset& set : config.eval_dataset_path)
    check_data(config, "eval_dataset_path", set.path, config.eval_split, problems);
  check(config, "eval_prompts_path", config.eval_prompts_path, Kind::file, problems);
  check(config, "eval_choices_path", config.eval_choices_path, Kind::file, problems);
  check(config, "tokenizer_path", config.tokenizer_path, Kind::either, problems);
  check(config, "reference_parameters_path", config.reference_parameters_path, Kind::folder,
        problems);
  if (!may_resume(config) || reads_start_again(config))
    check(config, "load_parameters_path", config.load_parameters_path, Kind::folder, problems);
  if (!may_resume(config)) {
    check(config, "load_adapter_path", config.load_adapter_path, Kind::folder, problems);
    check(config, "load_full_state_path", config.load_full_state_path, Kind::folder, problems);
  }
}

void require_inputs(const Config& config) {
  ProblemList problems;
  find_missing_inputs(config, problems);
  if (!problems.empty()) throw ConfigError(problems.text());
}

void find_missing_model(const Config& config, ProblemList& problems) {
  if (config.model_name.empty())
    check(config, "load_parameters_path", config.load_parameters_path, Kind::folder, problems);
}

bool starts_from_weights(const Config& config) {
  return !config.load_parameters_path.empty() && config.load_full_state_path.empty() &&
         !may_resume(config);
}

}  // namespace longshore::trainer
