// read_rope() and write_rope() say RoPE in config.json's keys: rope_theta, rope_scaling and
// partial_rotary_factor (the older spelling), rope_parameters (the newer one).
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "longshore/models/families/decoder_config.h"
#include "longshore/models/hf/json_reader.h"

namespace longshore::models {

// All that there are.
inline constexpr const char* kRopeKeys[] = {"original_max_position_embeddings",
                                            "partial_rotary_factor",
                                            "rope_local_base_freq",
                                            "rope_parameters",
                                            "rope_scaling",
                                            "rope_theta"};

// What `reader`'s object says of RoPE for config.family, into `config`; what nobody knows of it
// goes to `unknown`. Throws DataErrors as parse_hf_config does.
void read_rope(JsonReader& reader, DecoderConfig& config, std::vector<UnknownKey>& unknown);

// The keys of `family`, in both spellings, for the rotations that `config` has.
void write_rope(const DecoderConfig& config, const Family& family, nlohmann::json& object);

// What `config` has of RoPE and these keys cannot say for `family`, in the words of the keys.
std::vector<std::string> rope_beyond(const DecoderConfig& config, const Family& family);

}  // namespace longshore::models
