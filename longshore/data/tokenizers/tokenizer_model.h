// TokenizerModel is the interface through which a Tokenizer uses the two kinds of tokenizer files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/tokenizers/added_tokens.h"

namespace longshore::data {

// At most this much text is tokenized at once: sentencepiece needs about a hundred times as much
// memory, and counts in int.
inline constexpr size_t kMaxTextBytes = size_t{8} << 20;

// What decoding does with special tokens, such as eos.
enum class SpecialTokens { skip, keep };

// Where a text begins: at the beginning of what is tokenized, or behind a special token.
enum class TextPosition { start, later };

// Immutable once made: any number of threads may use it at a time. Errors are DataErrors, without
// the file's name.
class TokenizerModel {
 public:
  virtual ~TokenizerModel() = default;

  virtual std::vector<int32_t> encode(std::string_view text,
                                      TextPosition position = TextPosition::start) const = 0;
  // Appends the parts of a text: the special tokens that are written in it, and what lies between.
  virtual void split(std::string_view text, std::vector<TextPart>& parts) const = 0;
  // The ids are within the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids, SpecialTokens special) const = 0;

  // Bytes of the normalised text that the token stands for; of one for what is unknown, 1.
  virtual int64_t text_bytes(int32_t id) const = 0;

  virtual int32_t vocab_size() const = 0;
  // From this id on there are special tokens only, which texts need not have: Gemma 3's smallest
  // models have no row for the last one of their tokenizer.
  virtual int32_t ordinary_vocab_size() const { return vocab_size(); }
  virtual int32_t bos_id() const = 0;  // -1 when there is none
  virtual int32_t eos_id() const = 0;  // -1 when there is none
  // The id of the token that the file spells like this.
  virtual std::optional<int32_t> id_of(const std::string& token) const = 0;
  // Whether it is found in text before any other.
  virtual bool is_added(const std::string&) const { return false; }
  // Whether ids below vocab_size() are no token's.
  virtual bool has_gaps() const { return false; }
  // How the file spells the token of an id within the vocabulary; "" where it has none.
  virtual std::string spelling(int32_t id) const = 0;
  // The byte that a token stands for where it is one for bytes without a character's token; else
  // nothing.
  virtual std::optional<uint8_t> byte_of(int32_t id) const = 0;
};

}  // namespace longshore::data
