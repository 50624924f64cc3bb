#include "trainer/generate/prompt.h"

#include <array>

#include "data/chat_template.h"
#include "data/encode_example.h"

namespace longshore::trainer {

Prompt chat_prompt(const std::string& text, const std::string& chat_template,
                   const data::Tokenizer& tokenizer) {
  const auto chat = data::ChatTemplate::named(chat_template);
  const std::array messages{data::ChatMessage{"user", text}};
  return {.tokens = data::prompt_tokens(messages, tokenizer, chat),
          .end_tokens = {chat.end_of_turn(tokenizer), tokenizer.eos_id()}};
}

}  // namespace longshore::trainer
