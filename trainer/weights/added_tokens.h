// with_added_tokens() finds what add_tokens makes of a model's vocabulary.
#pragma once

#include "trainer/config/config.h"

namespace longshore::trainer {

// The config with its added_tokens and added_rows, and with a vocab_size that has room for these.
// Throws ConfigError where the tokenizer is none that tokens can be added to.
Config with_added_tokens(Config config);

}  // namespace longshore::trainer
