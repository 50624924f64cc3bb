// find_chat_template() finds the template that a model's folder, a file or a name stands for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/data/text/chat_template.h"
#include "longshore/data/text/chat_template_choice.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

// Of a folder its templates are, as transformers reads them, chat_template.jinja, those of
// additional_chat_templates/, or else chat_template of tokenizer_config.json (a text, or a list of
// {"name", "template"}), or chat_template.json. Where it has one named tool_use, that one writes
// conversations with tools by default. Templates read the special tokens by the names of
// tokenizer_config.json and special_tokens_map.json, or else bos_token and eos_token of the
// tokenizer.
//
// Throws a ConfigError on a name or a value that is none, and a DataError, with the file, on a file
// that cannot be read or holds no template.
std::optional<ChatTemplate> find_chat_template(const ChatTemplateChoice& choice,
                                               const std::filesystem::path& folder,
                                               const Tokenizer& tokenizer);

}  // namespace longshore::data
