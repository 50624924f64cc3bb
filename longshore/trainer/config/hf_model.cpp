#include "longshore/trainer/config/hf_model.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <variant>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/models/families/fields.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/keys.h"
#include "longshore/trainer/config/rope_override.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

// Which layers have a window: by a period, or else one by one.
void set_windows(const models::DecoderConfig& decoder, Config& config) {
  const int64_t period = models::full_attention_period(decoder);
  config.model.window = period == 1 ? 0 : decoder.window;
  config.model.full_attention_period = period > 1 && period <= decoder.layers ? period : 0;
  config.layer_types.clear();
  for (int64_t layer = 0; period == 0 && layer < decoder.layers; ++layer)
    config.layer_types.emplace_back(
        has_window(decoder, layer) ? models::window_word(*decoder.family) : models::kFullAttention);
}

// Which layers have RoPE: likewise.
void set_rotated(const models::DecoderConfig& decoder, Config& config) {
  const int64_t interval = models::nope_layer_interval(decoder);
  config.model.nope_layer_interval = interval <= decoder.layers ? interval : 0;
  config.no_rope_layers.clear();
  for (int64_t layer = 0; interval == 0 && layer < decoder.layers; ++layer)
    config.no_rope_layers.emplace_back(has_rope(decoder, layer) ? "1" : "0");
}

// Which layers have no experts: by a step, or else one by one.
void set_dense(const models::DecoderConfig& decoder, Config& config) {
  config.mlp_only_layers.clear();
  config.model.moe_layer_step = 1;
  if (decoder.experts == 0) return;
  if (const int64_t step = models::moe_layer_step(decoder); step > 0 && step <= decoder.layers) {
    config.model.moe_layer_step = step;
    return;
  }
  for (int64_t layer = 0; layer < decoder.layers; ++layer)
    if (!has_experts(decoder, layer)) config.mlp_only_layers.push_back(std::to_string(layer));
}

void set_vision(const std::optional<models::VisionConfig>& vision, Config& config) {
  config.use_multimodal = vision.has_value();
  if (vision) config.vision = *vision;
}

void set_rope(const models::RopeScaling& scaling, Config& config) {
  config.rope_type = RopeType::unscaled;
  if (const auto* linear = std::get_if<models::LinearRopeScaling>(&scaling)) {
    config.rope_type = RopeType::linear;
    config.rope_factor = linear->factor;
  } else if (const auto* llama3 = std::get_if<models::Llama3RopeScaling>(&scaling)) {
    config.rope_type = RopeType::llama3;
    config.rope_factor = llama3->factor;
    config.rope_low_freq_factor = llama3->low_freq_factor;
    config.rope_high_freq_factor = llama3->high_freq_factor;
    config.rope_original_max_position_embeddings =
        static_cast<int64_t>(llama3->original_max_position_embeddings);
  } else if (const auto* yarn = std::get_if<models::YarnRopeScaling>(&scaling)) {
    config.rope_type = RopeType::yarn;
    config.rope_factor = yarn->factor;
    config.rope_original_max_position_embeddings =
        static_cast<int64_t>(yarn->original_max_position_embeddings);
    config.beta_fast = yarn->beta_fast;
    config.beta_slow = yarn->beta_slow;
    config.rope_truncate = yarn->truncate;
    const bool is_default = yarn->attention_factor == models::yarn_attention_factor(yarn->factor);
    config.rope_attention_factor = is_default ? 0 : yarn->attention_factor;
  } else if (const auto* proportional = std::get_if<models::ProportionalRopeScaling>(&scaling)) {
    config.rope_type = RopeType::proportional;
    config.rope_factor = proportional->factor;
    config.model.partial_rotary_factor = proportional->turned;
  }
}

// Whether keys of the model are missing that the folder of weights was to bring.
bool lacks_model(const Config& config) {
  return !is_toy(config) && std::ranges::any_of(config_keys(), [&](const Key& key) {
    return key.section == Section::model && !is_valid(key, config);
  });
}

void say_why_there_is_none(const Config& config) {
  try {
    read_hf_config(config.load_parameters_path, unknown_keys(config), images(config));
  } catch (const Error& error) {
    throw ConfigError(location(config, "load_parameters_path") + ": " + error.what());
  }
}

// A named model may have been published with any.
void take_pad_token_of_weights(Config& config) {
  if (is_toy(config) || config.origins.contains("pad_token_id")) return;
  // The folder that a run began from may be gone.
  const fs::path saved = config.run_name.empty()
                             ? fs::path()
                             : config.base_output_directory / config.run_name / kModelFolder;
  for (const fs::path& folder : {config.load_parameters_path, saved}) {
    std::error_code error;
    if (folder.empty() || !fs::exists(folder / kHfConfigFile, error)) continue;
    try {
      config.model.pad_token =
          read_hf_config(folder, unknown_keys(config), images(config)).decoder.pad_token;
      config.origins["pad_token_id"] = path_text(folder / kHfConfigFile);
    } catch (const DataError&) {
      // Said where weights are opened; a plan needs none.
    }
    return;
  }
}

// What the folder's model says of RoPE that does not go with what the config says: the numbers of
// another scaling, and the factor of the attention that is another scaling factor's.
std::set<std::string> replaced_rope_keys(const Config& config, const Config& model) {
  if (config.origins.contains("rope_type") && config.rope_type != model.rope_type) {
    std::set<std::string> replaced(kRopeScalingKeys.begin(), kRopeScalingKeys.end());
    // Of the proportional scaling this is a number too.
    if (model.rope_type == RopeType::proportional) replaced.insert("partial_rotary_factor");
    return replaced;
  }
  if (config.origins.contains("rope_factor")) return {"rope_attention_factor"};
  return {};
}

}  // namespace

void set_model_keys(const models::DecoderConfig& decoder, Config& config) {
  config.toy = Toy::none;
  config.model.family = decoder.family;
  for (const models::Field* field : models::decoder_fields())
    set_value(*field, value(*field, decoder), config.model);
  set_windows(decoder, config);
  set_rotated(decoder, config);
  set_dense(decoder, config);
  set_rope(decoder.rope_scaling, config);
  set_vision(decoder.vision, config);
}

bool take_model_of_weights(Config& config) {
  const fs::path& folder = config.load_parameters_path;
  std::error_code error;
  if (folder.empty()) return true;
  if (!config.model_name.empty()) {
    take_pad_token_of_weights(config);
    return true;
  }
  if (!fs::exists(folder / kHfConfigFile, error)) {
    if (!lacks_model(config)) return true;
    if (fs::is_directory(folder, error)) say_why_there_is_none(config);
    return false;
  }
  Config model;
  const std::string origin = path_text(folder / kHfConfigFile);
  set_model_keys(read_hf_config(folder, unknown_keys(config), images(config)).decoder, model);
  const std::set<std::string> replaced = replaced_rope_keys(config, model);
  for (const Key& key : config_keys()) {
    if (key.section != Section::model || config.origins.contains(key.name)) continue;
    if (replaced.contains(key.name)) continue;
    copy_value(key, model, config);
    config.origins[key.name] = origin;
  }
  // Token files are checked against it.
  const bool reads_tokens = config.dataset_type != DatasetType::synthetic;
  if (!config.origins.contains("tokenizer_path") && reads_tokens && data::tokenizer_file(folder)) {
    config.tokenizer_path = folder;
    config.origins["tokenizer_path"] = location(config, "load_parameters_path");
  }
  return true;
}

}  // namespace longshore::trainer
