// What reads images in a published model, by its config.json and the names of its tensors
// (model_type gemma3 and paligemma).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/models/families/decoder_config.h"
#include "longshore/models/hf/json_reader.h"

namespace longshore::models {

// Of a config.json, an object with that decoder; nothing where it reads no images. Adds
// the keys that nobody knows. Throws a DataError that names the key, as parse_hf_config does.
std::optional<VisionConfig> read_vision_config(const nlohmann::json& object,
                                               const DecoderConfig& decoder,
                                               std::vector<UnknownKey>& unknown);

// The name that such a model has here for a tensor of its folder: that of published folders, such
// as "language_model.model.norm.weight" and "vision_tower.vision_model.post_layernorm.weight".
// Other spellings are those of transformers from 4.52 on ("model.language_model.norm.weight"), and
// of 5 ("vision_tower.post_layernorm.weight"). Nothing for the tower's head, which no decoder
// reads.
std::optional<std::string> image_model_name(std::string_view tensor);

}  // namespace longshore::models
