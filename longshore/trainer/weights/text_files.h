// Adds and reads what the files of a model's folder say of texts: how they become tokens, how
// conversations are written, and which tokens end them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/data/text/chat_template.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/trainer/weights/model_files.h"

namespace longshore::trainer {

// Whose bos and eos a model's are.
enum class TextEnds {
  of_model,      // those that its files name
  of_tokenizer,  // of a model that has no files yet
};

// Adds to `files`, of which `tokenizer` is the tokenizer, what transformers needs in order to read
// and write texts as training does:
//   tokenizer_config.json   where there is none, so that AutoTokenizer reads tokenizer.json as it
//                           is; and beside a tokenizer.json that was added
//   tokenizer.json          that of a sentencepiece model, or with tokens that were added
//   bos_token_id, eos_token_id   in config.json, where there is one, and generation_config.json,
//                           `of_tokenizer`
// With a chat template:
//   chat_template.jinja     which takes the place of another one; not where the files have it
//   eos_token_id            in both files also the end of the assistant's turn
// All may be there already. Throws a DataError where a file is no JSON object, and what
// ChatTemplate::end_of_turn throws.
void add_text_files(const data::Tokenizer& tokenizer,
                    const std::optional<data::ChatTemplate>& chat_template, TextEnds ends,
                    ModelFiles& files);

// The ids of tokens that begin and end texts, by generation_config.json and then config.json.
struct TextEndIds {
  std::vector<int32_t> bos, eos;
};

// Throws a DataError, which names the file, where one is no JSON object or an id is no integer.
TextEndIds text_end_ids(const ModelFiles& files);

// All eos_token_id of generation_config.json and config.json in `folder`. Throws a DataError, which
// names the file, where one is no JSON object or an id is no integer.
std::vector<int32_t> eos_ids(const std::filesystem::path& folder);

}  // namespace longshore::trainer
