// Text to token ids and back, by a sentencepiece model file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace longshore::data {

// Immutable once loaded: any number of threads may use it at a time.
class Tokenizer {
 public:
  // One call of encode() takes at most this much text: sentencepiece needs about a hundred times as
  // much memory, and counts in int.
  static constexpr size_t kMaxTextBytes = size_t{8} << 20;

  // Throws a DataError when the file is missing, larger than 64 MiB, no sentencepiece model, or
  // damaged.
  explicit Tokenizer(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of the text alone: no bos or eos is added. Each byte that is not UTF-8 reads as U+FFFD.
  std::vector<int32_t> encode(std::string_view text) const;

  // Throws a DataError on an id outside the vocabulary. Control tokens such as eos become nothing.
  std::string decode(std::span<const int32_t> ids) const;

  const std::filesystem::path& path() const { return path_; }
  int32_t vocab_size() const { return vocab_size_; }
  int32_t bos_id() const { return bos_id_; }  // -1 when the model has none
  int32_t eos_id() const { return eos_id_; }  // -1 when the model has none

  // Of the model file's bytes (64-bit FNV-1a). Shards carry it, to be told from those of other
  // tokenizers; it is no defence against intent.
  uint64_t content_hash() const { return content_hash_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  int32_t vocab_size_ = 0;
  int32_t bos_id_ = -1;
  int32_t eos_id_ = -1;
  uint64_t content_hash_ = 0;
};

}  // namespace longshore::data
