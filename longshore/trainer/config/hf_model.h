// The model of a config that names none: that of the weights it starts from.
#pragma once

#include "longshore/models/families/decoder.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// Fills in the model keys that nobody set where load_parameters_path has a config.json, and
// tokenizer_path where that folder has a tokenizer; their origin is that folder's file. In a config
// with a model_name, pad_token_id alone. Gives whether the model is known: not where it is missing
// since the folder is. Throws DataError for a config.json that is no decoder's, ConfigError for a
// folder without one that was to bring the model.
bool take_model_of_weights(Config& config);

// The model keys that make this decoder; the other keys stay.
void set_model_keys(const models::DecoderConfig& decoder, Config& config);

}  // namespace longshore::trainer
