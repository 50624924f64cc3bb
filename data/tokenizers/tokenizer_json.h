// Reads a tokenizer.json (the format of Hugging Face's tokenizers) of type BPE in the two forms
// that decoders use: byte-level behind a regular expression (Llama 3, Qwen), and over characters
// with byte fallback (Gemma, Llama 2). Knows the format, and nothing of how text is encoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/character_set.h"
#include "data/tokenizers/normalizer.h"
#include "data/tokenizers/split_behavior.h"

namespace longshore::data {

// A pre-tokenizer of what lies between added tokens: spaces become `replacement`, which is also put
// before what does not begin with it, always, or only where the whole text begins.
struct Metaspace {
  enum class Prepend { never, first, always };
  std::string replacement;
  Prepend prepend = Prepend::always;
  bool split = true;  // a piece begins at each replacement that no other follows
};

// A pre-tokenizer that looks for matches.
struct Split {
  // A regular expression; or a set, of which each character is a match by itself.
  std::variant<std::string, std::span<const CharacterRange>> pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what lies between counts as the matches
};

// The characters that byte-level tokens are spelled with, by the bytes that they stand for.
std::array<char32_t, 256> byte_level_alphabet();

struct TokenizerJson {
  BpeModel model;
  std::vector<AddedToken> added_tokens;    // normalised, as far as they say so
  std::vector<NormalizerStep> normalizer;  // of what lies between the other added tokens
  std::optional<Metaspace> metaspace;
  std::vector<Split> splits;  // each cuts what the one before it left
  // Then these, which see one character for each byte: that of the byte-level alphabet.
  std::vector<Split> byte_splits;
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
