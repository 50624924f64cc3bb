// Reads a tokenizer.json (the format of Hugging Face's tokenizers) of type BPE in the two forms
// that decoders use: byte-level behind a regular expression (Llama 3, Qwen), and over characters
// with byte fallback (Gemma, Llama 2). Knows the format, and nothing of how text is encoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "data/added_tokens.h"
#include "data/bpe.h"

namespace longshore::data {

// Steps of the normaliser, done in their order on what lies between added tokens.
struct Nfc {};
struct Prepend {
  std::string text;
};
struct Replace {
  std::string from, to;  // from is not empty
};
using NormalizerStep = std::variant<Nfc, Prepend, Replace>;

// A pre-tokenizer of what lies between added tokens: spaces become `replacement`, which is also put
// before what does not begin with it, always, or only where the whole text begins.
struct Metaspace {
  enum class Prepend { never, first, always };
  std::string replacement;
  Prepend prepend = Prepend::always;
};

// The text with every `from` replaced, from left to right; nothing where that has more than
// `most_bytes`.
std::optional<std::string> replaced(std::string_view text, const Replace& replace,
                                    size_t most_bytes);

struct TokenizerJson {
  BpeModel model;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::optional<Metaspace> metaspace;
  std::vector<std::string> split_patterns;  // each cuts what the one before it left
  // By id, as decoding writes it; "" where there is no such id.
  std::vector<std::string> decoded;
  std::unordered_map<std::string, int32_t> ids;  // of every token, as the file spells it
  bool decoder_strips_space = false;             // one from the front of all
  int32_t bos_id = -1;                           // what the template puts first
  int32_t eos_id = -1;                           // what the template puts last
};

// Throws a DataError that gives the place within the file, without the file's name, for what is
// damaged, inconsistent or not supported.
TokenizerJson parse_tokenizer_json(std::string_view text);

}  // namespace longshore::data
