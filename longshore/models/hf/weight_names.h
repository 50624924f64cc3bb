// hf_weight_name() says which of a model's weights a tensor of a Hugging Face folder is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "longshore/models/families/decoder_config.h"

namespace longshore::models {

// Whether `tensor` is a buffer that some releases of transformers store and all of them compute
// anew, such as "model.layers.0.self_attn.rotary_emb.inv_freq".
bool is_computed_buffer(std::string_view tensor);

// The name that the model has for a tensor of the folder: its own, also where AutoModel, which has
// no head, has left out "model."; of a model that also reads images, text_model_name's. Nothing for
// what is no weight of it: computed buffers, and what reads images.
std::optional<std::string> hf_weight_name(std::string_view tensor);

// The same of a model that reads images: image_model_name's.
std::optional<std::string> hf_image_weight_name(std::string_view tensor);

// Whether published folders have the tensor, by the name that hf_weight_name() gives it, though the
// model does not read it: keys and values of layers that read those of earlier ones.
bool is_unread_weight(const DecoderConfig& config, std::string_view name);

}  // namespace longshore::models
