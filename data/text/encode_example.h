// encode() turns an Example into token ids, and says of each whether it carries loss.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/text/chat_template.h"
#include "data/text/example.h"
#include "data/tokenizers/add_bos_eos.h"
#include "data/tokenizers/tokenizer.h"

namespace longshore::data {

struct Document {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> carries_loss;  // 1 or 0 for each token
  bool writes_bos_or_eos = false;     // at its ends, by itself; of texts and pairs
};

// Text and pairs start with bos and end with eos, which is trained on, as `add` says; messages are
// as the template writes them, and the assistant's content is trained on with the end of its turn.
// A token that holds characters of a prompt and of its completion is trained on. Since a
// sentencepiece model reads the names of bos and eos as text, AddBosEos::missing takes them from
// the ends before.
//
// Throws a DataError, without file and line, on messages without a template or that the template
// does not allow, and where nothing would be trained on: a document's first token is nobody's
// target.
Document encode(const Example& example, const Tokenizer& tokenizer,
                const std::optional<ChatTemplate>& chat_template,
                AddBosEos add = AddBosEos::missing);

// Text alone, as encode() does it; it may be empty.
Document encode_text(const std::string& text, const Tokenizer& tokenizer,
                     AddBosEos add = AddBosEos::missing);

// A text to go on with, behind the token `opening` (-1 for none), which is put before it as
// AddBosEos::missing puts bos.
std::vector<int32_t> prompt_tokens(const std::string& text, int32_t opening,
                                   const Tokenizer& tokenizer);

// The conversation up to where the assistant is to write next, tokenized as encode() does it.
// Throws what ChatTemplate::pieces throws.
std::vector<int32_t> prompt_tokens(std::span<const ChatMessage> messages,
                                   const Tokenizer& tokenizer, const ChatTemplate& chat_template);

}  // namespace longshore::data
