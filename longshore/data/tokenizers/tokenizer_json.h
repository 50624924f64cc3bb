// Reads a tokenizer.json (the format of Hugging Face's tokenizers): BPE, byte-level behind a
// regular expression (Llama 3, Qwen) or over characters (Gemma, Llama 2), and Unigram (T5, XLM-R).
// Knows the format, and nothing of how text is encoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "longshore/data/tokenizers/added_tokens.h"
#include "longshore/data/tokenizers/bpe.h"
#include "longshore/data/tokenizers/normalizer.h"
#include "longshore/data/tokenizers/pre_tokenizer.h"
#include "longshore/data/tokenizers/token_decoder.h"
#include "longshore/data/tokenizers/unigram_encoder.h"

namespace longshore::data {

struct TokenizerJson {
  std::variant<BpeModel, UnigramModel> model;
  std::vector<AddedToken> added_tokens;    // normalised, as far as they say so
  std::vector<NormalizerStep> normalizer;  // of what lies between the other added tokens
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<Split> byte_splits;  // after those; see PreTokenizer
  TokenDecoder decoder;
  std::vector<std::string> spelled;              // by id; "" where there is no such id
  std::unordered_map<std::string, int32_t> ids;  // of every token, as the file spells it
  int32_t bos_id = -1;                           // what the template puts first
  int32_t eos_id = -1;                           // what the template puts last
};

// Throws a DataError that gives the place within the file, without the file's name, for what is
// damaged, inconsistent or not supported.
TokenizerJson parse_tokenizer_json(std::string_view text);

}  // namespace longshore::data
