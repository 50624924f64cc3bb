// with_added_tokens() finds what add_tokens makes of a model's vocabulary.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// The config with its added_tokens and added_rows, and with a vocab_size that has room for these.
// Throws ConfigError where the tokenizer is none that tokens can be added to.
Config with_added_tokens(Config config);

// Tokens of add_tokens that have another number in the tokenizer beside an adapter, or none, each
// with both numbers; none where no tokenizer is there.
std::vector<std::string> tokens_numbered_otherwise(const Config& config,
                                                   const std::filesystem::path& adapter);

}  // namespace longshore::trainer
