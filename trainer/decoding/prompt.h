// A Prompt holds the tokens that a model is to continue.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace longshore::trainer {

struct Prompt {
  std::vector<int32_t> tokens;
  std::vector<int32_t> end_tokens;  // that end what is written after it
};

// `text` as what the user says by one of data::kChatTemplates, up to where the assistant is to
// write. It ends with the assistant's turn, or with eos. Throws a ConfigError, which begins with
// `origin`, that of the template, when the tokenizer lacks a special token.
Prompt chat_prompt(const std::string& text, const std::string& chat_template,
                   const data::Tokenizer& tokenizer, const std::string& origin);

}  // namespace longshore::trainer
