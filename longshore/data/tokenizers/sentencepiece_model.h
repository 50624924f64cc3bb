// A tokenizer.model, used through the sentencepiece library.
#pragma once

#include <memory>
#include <string_view>

#include "longshore/data/tokenizers/tokenizer_model.h"

namespace longshore::data {

// Throws a DataError, without the file's name, when the bytes are no sentencepiece model, or
// damaged. Its control tokens always decode to nothing.
std::unique_ptr<TokenizerModel> make_sentencepiece_model(std::string_view bytes);

}  // namespace longshore::data
