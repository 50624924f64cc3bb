#include "longshore/trainer/weights/stored_formats.h"

#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/weights/stored_weights.h"

namespace longshore::trainer {

std::shared_ptr<const models::Quantizations> stored_formats(const std::filesystem::path& folder,
                                                            const models::DecoderConfig& model) {
  return std::make_shared<const models::Quantizations>(
      StoredWeights(folder, model).quantizations());
}

namespace {

// Plans are made before there are any.
bool has_weights(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / "model.safetensors", error) ||
         std::filesystem::exists(folder / "model.safetensors.index.json", error);
}

}  // namespace

Config with_stored_formats(Config config) {
  const bool freezes = config.lora_rank > 0 && config.trainable_parameters_mask.empty();
  if (freezes && config.frozen_weight_dtype == FrozenWeightDtype::automatic &&
      !config.load_parameters_path.empty() && has_weights(config.load_parameters_path))
    config.stored_formats =
        stored_formats(config.load_parameters_path, decoder_config(config, models::Target::cpu));
  return config;
}

}  // namespace longshore::trainer
