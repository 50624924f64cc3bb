// The tokens at the ends of a text, as the files of a published model name them.
#pragma once

#include <string>

#include "data/tokenizer.h"
#include "trainer/weights/hf_folder.h"

namespace longshore::trainer {

// Adds bos_token_id and eos_token_id to `files.config`, and a generation_config.json with them,
// without which transformers takes those of the family's first model. With a chat template, one of
// data::kChatTemplates, a generation also ends with the assistant's turn. A generation_config.json
// that is there stays. Throws what ChatTemplate::end_of_turn throws.
void add_token_ids(const data::Tokenizer& tokenizer, const std::string& chat_template,
                   ModelFiles& files);

}  // namespace longshore::trainer
