// The chat template that a config asks for, or a run has used.
#pragma once

#include <filesystem>
#include <optional>

#include "longshore/data/text/find_chat_template.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/weights/run_weights.h"

namespace longshore::trainer {

// That of the tokenizer's folder, or that which is named. Throws a ConfigError, with where the key
// stands, and a DataError as data::find_chat_template() does.
std::optional<data::ChatTemplate> find_chat_template(const Config& config,
                                                     const data::Tokenizer& tokenizer);

// That of what is to be read, by `choice`. Throws as data::find_chat_template() does.
std::optional<data::ChatTemplate> find_chat_template(const RunWeights& weights,
                                                     const data::ChatTemplateChoice& choice,
                                                     const data::Tokenizer& tokenizer);

}  // namespace longshore::trainer
