#include "longshore/trainer/weights/run_weights.h"

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/text/built_in_templates.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/rope_override.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/config/yaml.h"
#include "longshore/trainer/weights/added_tokens.h"

namespace longshore::trainer {

namespace fs = std::filesystem;

namespace {

// A folder of the run, which holds regular files alone; "" where there is none.
fs::path part(const fs::path& run, const char* name) {
  if (!fs::exists(fs::symlink_status(run / name))) return {};
  const fs::path folder = folder_inside(run, name);
  require_regular_files(folder);
  return folder;
}

std::optional<models::DecoderConfig> turned_as(const Config& config) {
  const models::DecoderConfig there =
      read_hf_config(config.load_parameters_path, unknown_keys(config), images(config)).decoder;
  const models::DecoderConfig turned = with_rope_override(config, there);
  return turned == there ? std::nullopt : std::optional(turned);
}

}  // namespace

fs::path run_directory(const fs::path& run) {
  if (fs::exists(run / kConfigFile)) return run;
  fs::path given = fs::absolute(run).lexically_normal();
  if (!given.has_filename()) given = given.parent_path();  // "runs/a/best/"
  if (fs::exists(given)) {
    const fs::path checkpoints =
        fs::canonical(folder_inside(given.parent_path(), given.filename().string())).parent_path();
    if (checkpoints.filename() == kCheckpointsFolder &&
        fs::exists(checkpoints.parent_path() / kConfigFile))
      return checkpoints.parent_path();
  }
  throw ConfigError("--run: found " + path_text(run) + ", expected a run directory, which has " +
                    kConfigFile + ", or a checkpoint in one");
}

RunWeights weights_of_run(const fs::path& run) {
  const fs::path config_file = run_directory(run) / kConfigFile;
  require_regular_file(config_file);
  const Config config =
      with_added_tokens(load_config(config_file, {}, default_configs_directory()));
  const fs::path model = part(run, kModelFolder), adapter = part(run, kAdapterFolder);
  if (!model.empty()) {
    data::ChatTemplateChoice chat_template = chat_template_choice(config);
    // The run has left it in its model's folder.
    if (!data::is_built_in(chat_template.name) && chat_template.name != data::kNoTemplate)
      chat_template.name = data::kAutoTemplate;
    return {.model = model,
            .adapter = adapter,
            .tokenizer = config.tokenizer_path.empty() ? model : config.tokenizer_path,
            .add_tokens = config.add_tokens,
            .chat_template = chat_template,
            .templates = model,
            .images = images(config),
            .add_bos_eos = config.add_bos_eos};
  }
  if (adapter.empty())
    throw DataError(path_text(run) +
                    ": found neither model/ nor adapter/, expected a run that has saved");
  if (config.load_parameters_path.empty())
    throw DataError(path_text(config_file) +
                    ": load_parameters_path: found nothing, expected the folder of the weights "
                    "that the adapter is for");
  return {.model = config.load_parameters_path,
          .adapter = adapter,
          .tokenizer =
              config.tokenizer_path.empty() ? config.load_parameters_path : config.tokenizer_path,
          .add_tokens = config.add_tokens,
          .added_rows = config.added_rows,
          .chat_template = chat_template_choice(config),
          .turned_as = turned_as(config),
          .images = images(config),
          .frozen = frozen_quantization(config, config.dtype == ComputeDtype::bfloat16
                                                    ? models::Dtype::bfloat16
                                                    : models::Dtype::float32),
          .add_bos_eos = config.add_bos_eos};
}

}  // namespace longshore::trainer
