#include "longshore/trainer/config/hf_config.h"

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/data/files/small_file.h"
#include "longshore/models/hf/config.h"
#include "longshore/models/hf/text_model.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostMib = 1;

}  // namespace

HfConfig read_hf_config(const fs::path& folder, models::UnknownKeys unknown,
                        models::Images images) {
  const fs::path path = folder / kHfConfigFile;
  if (std::error_code error; fs::is_directory(folder, error) && !fs::exists(path, error)) {
    const bool is_run = fs::exists(folder / kModelFolder / kHfConfigFile, error);
    throw ConfigError(path_text(folder) + ": found no " + kHfConfigFile +
                      ", expected a folder of Hugging Face's" +
                      nearest_help(is_run ? path_text(folder / kModelFolder) : ""));
  }
  HfConfig config{.text = data::read_small_file(path, kMostMib), .decoder = {}, .unknown_keys = {}};
  try {
    config.decoder = models::parse_hf_config(config.text, unknown, images);
    config.unknown_keys = models::unknown_hf_keys(config.text, images);
    if (!config.decoder.vision) config.text = models::text_model_config(config.text);
  } catch (const DataError& error) {
    throw DataError(path_text(path) + ": " + error.what());
  }
  return config;
}

models::UnknownKeys unknown_keys(const Config& config) {
  return config.allow_unknown_config_keys ? models::UnknownKeys::ignore
                                          : models::UnknownKeys::refuse;
}

models::Images images(const Config& config) {
  if (config.use_multimodal) return models::Images::read;
  return config.origins.contains("use_multimodal") ? models::Images::ignore
                                                   : models::Images::needed;
}

std::string unknown_keys_text(const HfConfig& config) {
  if (config.unknown_keys.empty()) return "";
  ProblemList keys;
  for (const std::string& key : config.unknown_keys) keys.add(in_quotes(key));
  return "warning: keys of config.json that nobody here knows are ignored: " + keys.text();
}

}  // namespace longshore::trainer
