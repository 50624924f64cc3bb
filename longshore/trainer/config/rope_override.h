// with_rope_override() turns a folder's decoder as a config says, for texts longer than it was made
// for: by a rope_type with its factors, and the max_position_embeddings that go with them.
#pragma once

#include <array>

#include "longshore/models/families/decoder.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// The keys that say how RoPE is scaled.
inline constexpr std::array kRopeScalingKeys{"rope_type",
                                             "rope_factor",
                                             "rope_low_freq_factor",
                                             "rope_high_freq_factor",
                                             "rope_original_max_position_embeddings",
                                             "beta_fast",
                                             "beta_slow",
                                             "rope_truncate",
                                             "rope_attention_factor"};

// The decoder of the weights' folder, with what the config says in such keys itself: those that are
// from neither that folder nor a file of configs/models. RoPE's base stays the folder's. Throws
// ConfigError for what no config.json of that family says, and for another rope_type than
// "proportional" where the folder says that.
models::DecoderConfig with_rope_override(const Config& config,
                                         const models::DecoderConfig& of_folder);

}  // namespace longshore::trainer
