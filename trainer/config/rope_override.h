// with_rope_override() turns a folder's decoder as a config says, for texts longer than it was made
// for: by a rope_type with its factors, and the max_position_embeddings that go with them.
#pragma once

#include "models/families/decoder.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// The decoder of the weights' folder, with what the config says in such keys itself: those that are
// from neither that folder nor a file of configs/models. RoPE's base stays the folder's. Throws
// ConfigError for what no config.json of that family says.
models::DecoderConfig with_rope_override(const Config& config,
                                         const models::DecoderConfig& of_folder);

}  // namespace longshore::trainer
