#include "trainer/decoding/prompt.h"

#include <array>

#include "base/error.h"
#include "data/text/chat_template.h"
#include "data/text/encode_example.h"

namespace longshore::trainer {

Prompt chat_prompt(const std::string& text, const std::string& chat_template,
                   const data::Tokenizer& tokenizer, const std::string& origin) {
  const auto chat = data::ChatTemplate::named(chat_template);
  const std::array messages{data::ChatMessage{"user", text}};
  try {
    return {.tokens = data::prompt_tokens(messages, tokenizer, chat),
            .end_tokens = {chat.end_of_turn(tokenizer), tokenizer.eos_id()}};
  } catch (const DataError& error) {
    throw ConfigError(origin + ": " + error.what());
  }
}

}  // namespace longshore::trainer
