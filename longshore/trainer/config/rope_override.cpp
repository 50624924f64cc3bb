#include "longshore/trainer/config/rope_override.h"

#include <algorithm>
#include <string>
#include <variant>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/models/families/fields.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/keys.h"
#include "longshore/trainer/config/model_keys.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

constexpr const char* kMaxPositions = "max_position_embeddings";

bool is_said(const Config& config, const std::string& key) {
  const auto origin = config.origins.find(key);
  if (origin == config.origins.end()) return false;
  const std::string model_file = "longshore/models/" + config.model_name + ".yml:";
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
      std::ranges::any_of(kRopeScalingKeys, [&](const char* key) { return is_said(config, key); });
  if (!scales) return turned;
  turned.rope_scaling = rope_scaling(config);
  // Another would turn all of a head.
  if (std::holds_alternative<models::ProportionalRopeScaling>(of_folder.rope_scaling) &&
      !std::holds_alternative<models::ProportionalRopeScaling>(turned.rope_scaling))
    throw ConfigError(location(config, "rope_type") + ": found " +
                      value_text(*find_key("rope_type"), config) +
                      ", expected proportional, as the weights' config.json says");
  if (is_said(config, models::kWindowRopeBase.key))
    turned.window_rope_base = config.model.window_rope_base;
  if (const auto beyond = models::beyond_rope_keys(turned); !beyond.empty())
    throw ConfigError(location(config, "rope_type") + ": found what no config.json of " +
                      turned.family->name + " says: " + join(beyond));
  return turned;
}

}  // namespace longshore::trainer
