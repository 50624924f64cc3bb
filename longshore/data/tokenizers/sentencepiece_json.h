// A sentencepiece model in the format of Hugging Face's tokenizers, which AutoTokenizer reads
// without sentencepiece.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace longshore::data {

// How the model of these bytes, which a Tokenizer has read, cuts texts: "Unigram", "BPE", "word" or
// "char".
const char* sentencepiece_model_type(std::string_view model);

// The tokenizer.json that gives a text the ids that sentencepiece gives it with `model`, the bytes
// of a tokenizer.model that a Tokenizer has read; "" for a model of whole words, which that format
// has no equal of. As with any tokenizer.json, control tokens that are spelled in a text are
// recognised there. `chat_tokens`: user-defined symbols that stand between texts, so that what
// follows one is the beginning of a text (see ChatTemplate), as is what follows a control token.
// A text begins with bos, where the model has one. Where the model has normaliser's rules,
// tokenizers does not compose letters that are written as a base and its marks, 6 bytes or more
// together.
std::string tokenizer_json_of_sentencepiece(std::string_view model,
                                            std::span<const std::string> chat_tokens);

}  // namespace longshore::data
