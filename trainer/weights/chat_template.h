// The chat template that a config asks for.
#pragma once

#include <filesystem>
#include <optional>

#include "data/text/find_chat_template.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// That of the tokenizer's folder, or that which is named. Throws a ConfigError, with where the key
// stands, and a DataError as data::find_chat_template() does.
std::optional<data::ChatTemplate> find_chat_template(const Config& config,
                                                     const data::Tokenizer& tokenizer);

}  // namespace longshore::trainer
