// make_json_tokenizer() makes a tokenizer from a tokenizer.json: normalisation, splitting, encoding
// by BPE or Unigram, and the way back.
#pragma once

#include <memory>
#include <string_view>

#include "longshore/data/tokenizers/tokenizer_model.h"

namespace longshore::data {

// Special tokens written in a text are recognised. bos and eos are what the template of the file
// puts before and after a text; eos is otherwise the one token of the names <|end_of_text|>,
// <|endoftext|>, <eos> and </s> that there is.
//
// Throws a DataError, without the file's name, when the bytes are no such file; see
// parse_tokenizer_json.
std::unique_ptr<TokenizerModel> make_json_tokenizer(std::string_view bytes);

}  // namespace longshore::data
