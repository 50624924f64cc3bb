// A Tokenizer turns text into token ids and back, by a sentencepiece model file, a tokenizer.json,
// or a file of ranked tokens that becomes one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/tokenizers/tokenizer_model.h"

namespace longshore::data {

// The key of tokenizer_config.json that names the sentencepiece model which the tokenizer.json
// beside it was made from; transformers ignores it.
inline constexpr const char* kSentencepieceKey = "sentencepiece_model";

// The file that Tokenizer reads of a folder: tokenizer.json, or else tokenizer.model, tekken.json
// or qwen.tiktoken; nothing where there is none. With both of the first two, tokenizer.model where
// tokenizer.json was made from it.
std::optional<std::filesystem::path> tokenizer_file(const std::filesystem::path& folder);

// Whether a tokenizer file of that name and these bytes is a tokenizer.json or tekken.json; else it
// should be a sentencepiece model or a tiktoken file.
bool is_tokenizer_json(const std::filesystem::path& path, std::string_view bytes);

// Immutable once loaded: any number of threads may use it at a time.
class Tokenizer {
 public:
  // `path` is a tokenizer.model (of sentencepiece, or tiktoken's of Llama 3 and 4), a
  // tokenizer.json, a tekken.json, or a folder with one of them: see tokenizer_file(). Throws a
  // DataError when the file is missing, larger than 64 MiB, of no such kind, damaged, or holds what
  // is not supported. A tokenizer.json can have tokens added: each of `add_tokens` that it does not
  // have gets the next id, as Hugging Face's tokenizers adds them, and a piece of its vocabulary
  // keeps its own; to a tokenizer.model none can be, nor where ids are missing.
  explicit Tokenizer(const std::filesystem::path& path,
                     std::span<const std::string> add_tokens = {});
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of the text alone: no bos or eos is added. A tokenizer.json recognises special tokens
  // written in the text, sentencepiece does not. What is not UTF-8 reads as U+FFFD: sentencepiece
  // reads one for each byte, a tokenizer.json one for each part of a character.
  std::vector<int32_t> encode(std::string_view text,
                              TextPosition position = TextPosition::start) const;

  // The parts of a text: special tokens that are written in it, and what lies between, of which
  // encode() with TextPosition::later makes the same ids as within the whole. Of a sentencepiece
  // model these are its special_pieces().
  std::vector<TextPart> split(std::string_view text) const;

  // How many bytes of the normalised text tokens within the vocabulary stand for.
  int64_t text_bytes(std::span<const int32_t> ids) const;

  // Throws a DataError on an id outside the vocabulary. Control tokens of a sentencepiece model
  // such as eos always become nothing.
  std::string decode(std::span<const int32_t> ids,
                     SpecialTokens special = SpecialTokens::skip) const;

  // The path of the file itself, also where a folder was given.
  const std::filesystem::path& path() const { return path_; }
  // The files that were read, and those that would have been if they existed.
  std::vector<std::filesystem::path> files() const;
  bool is_sentencepiece() const { return is_sentencepiece_; }
  // The text of the tokenizer.json that has the tokens which were added, or that a file of ranked
  // tokens became; "" where the file itself serves.
  const std::string& extended_json() const { return extended_json_; }
  int32_t vocab_size() const { return model_->vocab_size(); }
  int32_t ordinary_vocab_size() const { return model_->ordinary_vocab_size(); }
  // What a text begins with; -1 if nothing. For a tokenizer.json what its template puts there,
  // whatever tokenizer_config.json in the same folder calls bos_token: as transformers has it.
  int32_t bos_id() const { return model_->bos_id(); }
  // What ends a text; -1 where there is none. For a tokenizer.json the eos_token of
  // tokenizer_config.json, or else that of make_json_tokenizer.
  int32_t eos_id() const { return eos_id_; }

  // The id of a token by its name, such as "<|eot_id|>".
  std::optional<int32_t> id_of(const std::string& token) const { return model_->id_of(token); }
  // The name of the token with this id; "" where the vocabulary has none.
  std::string spelling(int32_t id) const;
  // The byte of the token "<0x0A>" and its like, of which what has no token of its own is made.
  // Throws as decode() does.
  std::optional<uint8_t> byte_of(int32_t id) const;

  // A 64-bit FNV-1a hash of the file's bytes, or of extended_json(). Token files carry it, so that
  // those of other tokenizers are told apart; it is no defence against intent.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  void add(std::span<const std::string> tokens, std::string& bytes);
  void check(int32_t id) const;

  std::filesystem::path path_;
  std::unique_ptr<TokenizerModel> model_;
  bool is_sentencepiece_ = false;
  int32_t eos_id_ = -1;
  uint64_t fingerprint_ = 0;
  std::string extended_json_;
};

}  // namespace longshore::data
