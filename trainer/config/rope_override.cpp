#include "trainer/config/rope_override.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"
#include "models/families/fields.h"
#include "models/hf/config.h"
#include "trainer/config/hf_config.h"
#include "trainer/config/model_keys.h"
#include "trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

constexpr const char* kMaxPositions = "max_position_embeddings";

constexpr const char* kOfScaling[] = {"rope_type",
                                      "rope_factor",
                                      "rope_low_freq_factor",
                                      "rope_high_freq_factor",
                                      "rope_original_max_position_embeddings",
                                      "beta_fast",
                                      "beta_slow",
                                      "rope_truncate",
                                      "rope_attention_factor"};

bool is_said(const Config& config, const std::string& key) {
  const auto origin = config.origins.find(key);
  if (origin == config.origins.end()) return false;
  const std::string model_file = "models/" + config.model_name + ".yml:";
  const bool is_of_model =
      !config.model_name.empty() && origin->second.find(model_file) != std::string::npos;
  return !is_of_model && origin->second != path_text(config.load_parameters_path / kHfConfigFile);
}

}  // namespace

models::DecoderConfig with_rope_override(const Config& config,
                                         const models::DecoderConfig& of_folder) {
  models::DecoderConfig turned = of_folder;
  if (is_said(config, kMaxPositions))
    turned.max_position_embeddings = config.model.max_position_embeddings;
  const bool scales =
      std::ranges::any_of(kOfScaling, [&](const char* key) { return is_said(config, key); });
  if (!scales) return turned;
  turned.rope_scaling = rope_scaling(config);
  if (is_said(config, models::kWindowRopeBase.key))
    turned.window_rope_base = config.model.window_rope_base;
  if (const auto beyond = models::beyond_rope_keys(turned); !beyond.empty())
    throw ConfigError(location(config, "rope_type") + ": found what no config.json of " +
                      turned.family->name + " says: " + join(beyond));
  return turned;
}

}  // namespace longshore::trainer
