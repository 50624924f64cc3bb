// rope_scaling(), windowed(), has_dense_layers() and those for adapters are what keys of a config
// say of its model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "longshore/models/families/lora_config.h"
#include "longshore/models/ops/rope/rope_options.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// What rope_type and its factors say.
models::RopeScaling rope_scaling(const Config& config);

// Which layers have a window, as layer_types says; empty where it says nothing.
std::vector<bool> windowed(const Config& config);

// Whether some layers of the model have no experts.
bool has_dense_layers(const Config& config);

// The projections of the model's layers that can have an adapter, and the head, where it can.
std::vector<std::string> known_lora_targets(const Config& config);
// Those that have one: lora_targets, all-linear written out.
std::vector<std::string> lora_targets(const Config& config);

// trainable_token_indices, and what add_tokens adds to them: not where all of the embedding trains.
// Throws ConfigError for what is no token.
std::vector<int64_t> trained_tokens(const Config& config);

// rank_pattern and alpha_pattern: expressions for modules, and what these have. Throw ConfigError
// for other texts.
std::vector<std::pair<std::string, int64_t>> rank_pattern(const Config& config);
std::vector<std::pair<std::string, double>> alpha_pattern(const Config& config);

// The adapters that the keys describe.
models::LoraConfig lora_config(const Config& config);

}  // namespace longshore::trainer
