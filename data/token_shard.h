// Pre-tokenised text in one file. Little-endian; 48 bytes of header, then the tokens to the end:
//
//   0   8 bytes  "LSTOKENS"
//   8   uint32   format version, 1
//   12  uint32   bytes per token, 2 or 4
//   16  uint64   number of tokens
//   24  uint64   number of documents, 0 if not recorded
//   32  uint64   content hash of the tokenizer (Tokenizer::content_hash)
//   40  uint32   vocabulary size; every token is below it
//   44  uint32   0
//
// A shard appears under its name only when it is complete: it is written beside it and renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/atomic_file.h"
#include "data/file_mapping.h"

namespace longshore::data {

// A mapped shard. The header and the file's size are checked when it is opened, token ids when they
// are read; either fails with a DataError that names the file. While it is open the file may be
// replaced (by rename), but not be shortened.
class TokenShard {
 public:
  explicit TokenShard(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int64_t token_count() const { return token_count_; }
  int64_t document_count() const { return document_count_; }
  int32_t vocab_size() const { return vocab_size_; }
  uint64_t tokenizer_hash() const { return tokenizer_hash_; }

  // Tokens [first, first + out.size()).
  void read(int64_t first, std::span<int32_t> out) const;

  // Throws a DataError unless this shard was made by the tokenizer with that hash. `owner` is what
  // the message calls the other side, for instance the tokenizer's path.
  void require_tokenizer(uint64_t tokenizer_hash, std::string_view owner) const;

 private:
  std::filesystem::path path_;
  FileMapping mapping_;
  int bytes_per_token_ = 0;
  int64_t token_count_ = 0;
  int64_t document_count_ = 0;
  int32_t vocab_size_ = 0;
  uint64_t tokenizer_hash_ = 0;
};

// Writes a shard: any number of appends, then finish(). Without finish() nothing is left behind.
// Trouble with the file system is a DataError.
class TokenShardWriter {
 public:
  TokenShardWriter(std::filesystem::path path, int32_t vocab_size, uint64_t tokenizer_hash);

  // Tokens outside the vocabulary are an InternalError: they come from the tokenizer.
  void append(std::span<const int32_t> tokens);

  // Puts the shard under its name, for good: contents and name are synced to the disk.
  void finish(int64_t document_count);

  int64_t token_count() const { return token_count_; }

 private:
  AtomicFile file_;
  int32_t vocab_size_;
  uint64_t tokenizer_hash_;
  int bytes_per_token_;
  int64_t token_count_ = 0;
  std::vector<std::byte> buffer_;  // of one append
};

}  // namespace longshore::data
