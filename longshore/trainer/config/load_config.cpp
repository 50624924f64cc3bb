#include "longshore/trainer/config/load_config.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/base/program_folder.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/hf_model.h"
#include "longshore/trainer/config/inputs.h"
#include "longshore/trainer/config/key_aliases.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

const std::string kBaseConfig = "base_config";
const std::string kModelName = "model_name";
const std::string kLoadParametersPath = "load_parameters_path";
constexpr size_t kMostBases = 32;  // of which one is based on the next

// Words that are longer than any key are not taken for misspellings.
std::string help(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr size_t kMaxWord = 64;
  return nearest_help(word.size() > kMaxWord ? "" : nearest(word, candidates));
}

std::string fault(const Setting& setting, const std::string& found, const std::string& expectation,
                  const std::string& help) {
  return setting.origin + " " + excerpt(setting.key) + ": found " + found + ", expected " +
         expectation + help;
}

[[noreturn]] void refuse(const Setting& setting, const std::string& found,
                         const std::string& expectation, const std::string& help) {
  throw ConfigError(fault(setting, found, expectation, help));
}

std::string found_text(const Scalar& value) {
  if (!value.nested.empty()) return value.nested;
  if (value.list)
    return value.list->empty() ? "an empty list" : "a list, " + excerpt(join(*value.list));
  if (value.style == ScalarStyle::quoted) return in_quotes(value.text);
  return value.text.empty() ? "nothing" : excerpt(value.text);
}

std::vector<std::string> key_names(std::span<const Key> keys) {
  std::vector<std::string> names;
  for (const Key& key : keys) names.push_back(key.name);
  return names;
}

std::vector<std::string> model_key_names() {
  std::vector<std::string> names;
  for (const Key& key : config_keys()) {
    if (key.section == Section::model) names.push_back(key.name);
  }
  return names;
}

fs::path absolute_path(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::absolute(path, error);
  if (error) throw ConfigError(path_text(path) + ": " + error.message());
  result = result.lexically_normal();
  return result.has_filename() ? result : result.parent_path();
}

// The same spelling for each path to a file, so that cycles are found.
fs::path canonical_path(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::weakly_canonical(path, error);
  return error ? path : result;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

const Setting* find_setting(std::span<const Setting> settings, const std::string& key) {
  auto setting = std::ranges::find(settings, key, &Setting::key);
  return setting == settings.end() ? nullptr : &*setting;
}

// What is wrong with the setting of a key, which then is not set; "" where nothing is.
std::string set(const Setting& setting, const fs::path& relative_to, Config& config) {
  const Key& key = *find_key(setting.key);
  config.origins[key.name] = setting.origin;
  if (!setting.value.nested.empty()) return fault(setting, setting.value.nested, expected(key), "");
  if (!read_value(key, setting.value, relative_to, config)) {
    const std::vector<std::string> valid = choices(key);
    const std::string wrong = wrong_word(key, setting.value),
                      other = setting_for_value(key.name, setting.value.text),
                      meant = other.empty() ? value_for_other_name(wrong, valid) : other;
    return fault(setting, found_text(setting.value), expected(key),
                 too_near_zero(key, setting.value) +
                     (meant.empty() ? help(wrong, valid) : nearest_help(meant)));
  }
  return "";
}

std::string unknown_key_fault(const Setting& setting) {
  std::vector<std::string> known = key_names(config_keys());
  known.push_back(kBaseConfig);
  const std::string meant = key_for_other_name(setting.key),
                    reason = reason_for_no_key(setting.key);
  const std::string remark = remark_on_values(setting.key);
  if (meant.empty() && reason.empty() && !setting.value.nested.empty())
    return fault(setting, setting.value.nested, "key: value, without sections", "");
  return fault(setting, "an unknown key", "one that --help lists",
               !meant.empty()    ? nearest_help(meant) + (remark.empty() ? "" : " (" + remark + ")")
               : !reason.empty() ? "; " + reason
                                 : help(setting.key, known));
}

fs::path installed_configs() { return installed_path("configs"); }

// What a config is loaded for.
struct Purpose {
  bool reads_policy;                                  // else others take the place of the config's
  void (*find_missing)(const Config&, ProblemList&);  // inputs, named beside what else is wrong
};
constexpr Purpose kTraining{true, find_missing_inputs}, kPolicies{false, find_missing_model};

// Applies sources of settings in the order of their precedence, the lowest first.
class Resolver {
 public:
  explicit Resolver(const fs::path& configs_directory)
      : configs_(absolute_path(configs_directory)),
        root_(configs_ == installed_configs() ? absolute_path(".") : configs_.parent_path()) {
    config_.base_output_directory = root_ / config_.base_output_directory;
  }

  // `name` as given after --config.
  fs::path find_config(const fs::path& name) const {
    if (name.extension() == ".toml")
      throw ConfigError(std::string(kCommandLine) + " --config: found " + path_text(name) +
                        ", TOML, expected flat YAML (key: value); write torchtitan's keys so, and "
                        "the error says what they are called here");
    if (is_file(name)) return absolute_path(name);
    if (is_file(configs_ / name)) return configs_ / name;
    Setting setting;
    setting.key = "--config";
    setting.origin = kCommandLine;
    refuse(setting, path_text(name), "a file, by path or in " + path_text(configs_),
           help(name.native(), yaml_files(configs_)));
  }

  std::string read_file(const fs::path& file) const { return read_yaml_file(file, shown(file)); }

  void apply_text(std::string_view text, const fs::path& file) {
    open_files_.push_back(canonical_path(file));
    std::vector<Setting> settings = parse_yaml_settings(text, shown(file), Nested::kept);
    if (const Setting* base = find_setting(settings, kBaseConfig)) apply_base(*base, file);
    apply_settings(settings, root_);
    open_files_.pop_back();
  }

  void apply_command_line(std::span<const std::string> overrides) {
    std::vector<Setting> settings = parse_command_line_settings(overrides);
    if (const Setting* base = find_setting(settings, kBaseConfig)) {
      refuse(*base, found_text(base->value), "this key in a file only", "");
    }
    apply_settings(settings, absolute_path("."));
  }

  Config finish(const fs::path& file, const Purpose& purpose) {
    config_.config_file = shown(file);
    bool has_model = false;
    if (problems_.empty()) {  // else keys seem to contradict each other that do not
      problems_.holds([&] { has_model = take_model_of_weights(config_); });
      if (has_model) find_model_faults(config_, problems_);
      find_other_faults(config_, problems_);
      if (purpose.reads_policy) find_remat_faults(config_, problems_);
    }
    if (!has_model || !problems_.empty()) purpose.find_missing(config_, problems_);
    if (!problems_.empty()) throw ConfigError(problems_.text());
    return std::move(config_);
  }

 private:
  // The name of a file in messages. It is relative to the root if the file is there.
  std::string shown(const fs::path& file) const {
    fs::path relative = file.lexically_relative(root_);
    bool inside = !relative.empty() && *relative.begin() != "..";
    return path_text(inside ? relative : file);
  }

  void apply_base(const Setting& base, const fs::path& file) {
    const Scalar& value = base.value;
    fs::path beside = (file.parent_path() / value.text).lexically_normal();
    fs::path shipped = (configs_ / value.text).lexically_normal();
    bool is_name = value.style != ScalarStyle::null && !value.text.empty();
    if (!is_name || (!is_file(beside) && !is_file(shipped))) {
      std::vector<std::string> names = yaml_files(file.parent_path());
      std::erase(names, file.filename().string());
      std::ranges::copy(yaml_files(configs_), std::back_inserter(names));
      // MaxText's file of all defaults.
      const bool is_defaults = fs::path(value.text).filename() == "base.yml";
      return add(fault(
          base, found_text(value), "a file beside this one or in configs/",
          is_defaults ? "; leave it out: --help lists the defaults" : help(value.text, names)));
    }
    const fs::path& found = is_file(beside) ? beside : shipped;
    if (std::ranges::find(open_files_, canonical_path(found)) != open_files_.end()) {
      refuse(base, found_text(value) + ", which leads back to this file",
             "a config that does not inherit from itself", "");
    }
    if (open_files_.size() >= kMostBases)
      refuse(base, found_text(value) + " after " + std::to_string(kMostBases) + " others",
             "a shorter chain of them", "");
    apply_text(read_file(found), found);
  }

  void apply_settings(std::span<const Setting> settings, const fs::path& relative_to) {
    const bool brings_weights =
        find_setting(settings, kLoadParametersPath) || !config_.load_parameters_path.empty();
    if (const Setting* model = find_setting(settings, kModelName))
      apply_model(*model, brings_weights);
    for (const Setting& setting : settings) {
      if (setting.key == kBaseConfig) continue;
      add(find_key(setting.key) ? set(setting, relative_to, config_) : unknown_key_fault(setting));
    }
  }

  // An empty name stands for no model so far: that of load_parameters_path, or the keys that
  // follow.
  void apply_model(const Setting& model, bool brings_weights) {
    fs::path directory = configs_ / "models";
    std::vector<std::string> models = yaml_files(directory);
    for (std::string& file : models) file = fs::path(file).stem().string();
    const std::string& name = model.value.text;
    const bool is_none = model.value.style != ScalarStyle::null && name.empty();
    const bool is_known = std::ranges::find(models, name) != models.end();
    if (model.value.style == ScalarStyle::null || !model.value.nested.empty() ||
        !(is_none || is_known))
      return add(fault(model, found_text(model.value), "a model of configs/models: " + join(models),
                       help(name, models)));
    const bool had_name = !config_.model_name.empty(), had_model = had_name || has_model_keys();
    for (const Key& key : config_keys())
      if (key.section == Section::model) unset(key);
    if (is_none) {
      // A model of one's own may be replaced by another for the same data.
      if (had_name || (had_model && brings_weights)) unset_companions();
      return;
    }
    if (!had_model) before_model_ = config_.origins;
    fs::path file = directory / (name + ".yml");
    for (const Setting& setting : parse_yaml_settings(read_file(file), shown(file))) {
      const Key* key = find_key(setting.key);
      if (key == nullptr || key->section != Section::model) {
        refuse(setting, "a key that is not a model's", "one of " + join(model_key_names()),
               help(setting.key, model_key_names()));
      }
      add(set(setting, root_, config_));
    }
  }

  bool has_model_keys() const {
    return std::ranges::any_of(config_keys(), [&](const Key& key) {
      return key.section == Section::model && config_.origins.contains(key.name);
    });
  }

  void unset(const Key& key) {
    copy_value(key, Config(), config_);
    config_.origins.erase(key.name);
  }

  // What was set with the model that goes, and is of use with no other.
  void unset_companions() {
    for (const char* name :
         {"tokenizer_path", "chat_template", "chat_template_kwargs", "chat_template_date"}) {
      const auto now = config_.origins.find(name), before = before_model_.find(name);
      const bool is_older = now != config_.origins.end() && before != before_model_.end() &&
                            now->second == before->second;
      if (!is_older) unset(*find_key(name));
    }
    before_model_.clear();
  }

  void add(std::string fault) {
    if (!fault.empty()) problems_.add(std::move(fault));
  }

  fs::path configs_;
  // Where relative paths in files begin: what holds configs/ in a source tree. Where that is
  // installed, nobody need be able to write, and it is the current folder.
  fs::path root_;
  Config config_;
  std::map<std::string, std::string>
      before_model_;  // origins, where a source names the first model
  // Faults of single keys, reported together, so that a file of another trainer is corrected in one
  // go.
  ProblemList problems_;
  std::vector<fs::path> open_files_;  // from the outermost file to the one that is being applied
};

Config resolve(Resolver resolver, std::string_view text, const fs::path& file,
               std::span<const std::string> overrides, const Purpose& purpose) {
  fs::path absolute_file = absolute_path(file);
  resolver.apply_text(text, absolute_file);
  resolver.apply_command_line(overrides);
  return resolver.finish(absolute_file, purpose);
}

Config load_checked(const fs::path& file_or_name, std::span<const std::string> overrides,
                    const fs::path& configs_directory, const Purpose& purpose) {
  const Resolver resolver(configs_directory);
  const fs::path file = resolver.find_config(file_or_name);
  return resolve(resolver, resolver.read_file(file), file, overrides, purpose);
}

}  // namespace

fs::path default_configs_directory() {
  std::error_code error;
  fs::path installed = installed_configs();
  if (fs::is_directory(installed, error)) return installed;
  fs::path of_sources = program_folder().parent_path().parent_path() / "configs";
  if (!fs::is_directory(of_sources, error)) {
    throw ConfigError(path_text(of_sources) +
                      ": found no such folder, expected the program in build/bin beside configs/, "
                      "or as installed, with " +
                      path_text(installed));
  }
  return of_sources;
}

Config override_config(Config config, std::span<const std::string> overrides,
                       std::span<const std::string> keys) {
  std::vector<std::string> known(keys.begin(), keys.end());
  for (const Setting& setting : parse_command_line_settings(overrides)) {
    if (std::ranges::find(known, setting.key) == known.end())
      refuse(setting, find_key(setting.key) ? "a key of no use here" : "an unknown key",
             "one of " + join(known), help(setting.key, known));
    if (const std::string problem = set(setting, absolute_path("."), config); !problem.empty())
      throw ConfigError(problem);
  }
  return config;
}

Config load_config(const fs::path& file_or_name, std::span<const std::string> overrides,
                   const fs::path& configs_directory) {
  return load_checked(file_or_name, overrides, configs_directory, kTraining);
}

Config load_config_for_policies(const fs::path& file_or_name,
                                std::span<const std::string> overrides,
                                const fs::path& configs_directory) {
  return load_checked(file_or_name, overrides, configs_directory, kPolicies);
}

Config load_config_text(std::string_view text, const fs::path& file,
                        std::span<const std::string> overrides, const fs::path& configs_directory) {
  return resolve(Resolver(configs_directory), text, file, overrides, kTraining);
}

}  // namespace longshore::trainer
