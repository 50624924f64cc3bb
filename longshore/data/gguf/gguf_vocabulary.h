// gguf_vocabulary() says in a GGUF file's words what a tokenizer.json is.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "longshore/data/gguf/gguf.h"
#include "longshore/data/tokenizers/added_tokens.h"

namespace longshore::data {

struct GgufVocabularyOptions {
  int64_t size = 0;                          // of the model's matrices
  std::string_view character_bpe = "llama";  // what the model's family calls BPE over characters
};

struct GgufVocabulary {
  std::vector<GgufEntry> entries;    // "tokenizer.ggml.*"
  std::vector<AddedToken> left_out;  // special tokens of ids that the model has no rows for
};

// Which kind of tokenizer it is, its tokens, scores or merges, whether a text gets a space, bos and
// eos, and the token for what is unknown. Ids without a token, up to `size`, get names of their
// own. BPE over characters becomes what llama.cpp calls SPM, with scores in the order of the
// merges.
//
// llama.cpp cuts texts by code of its own, which it knows by names: those of GPT-2, SmolLM, Llama
// 3, Qwen 2, GPT-4o and Tekken. It knows no normaliser; NFC is left out, as its own converter does.
//
// Throws a DataError, without the file's name, for an expression or a normaliser that it has no
// name for, a Unigram model, and where tokens beyond `size` are ordinary ones, or the template's,
// or that for what is unknown; and as parse_tokenizer_json does.
GgufVocabulary gguf_vocabulary(std::string_view tokenizer_json,
                               const GgufVocabularyOptions& options);

}  // namespace longshore::data
