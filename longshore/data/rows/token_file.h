// A token file holds pre-tokenised documents. Little-endian; 80 bytes of header:
//
//   0   8 bytes  "LSTOKENS"
//   8   uint32   format version, 4, or 5 where documents have images, or 6 where they are pairs,
//                or 7 where tokens have numbers beside them
//   12  uint32   bytes per token, 2 or 4
//   16  uint64   number of tokens
//   24  uint64   number of documents
//   32  uint64   fingerprint of the tokenizer (Tokenizer::fingerprint)
//   40  uint32   vocabulary size; every token is below it
//   44  uint32   1 if a token's highest bit says that it carries no loss; else 0
//   48  uint64   number of lines of the text that were skipped, since they could not be read
//   56  2 uint64 XXH3-128 of all that follows the header, the high half first
//   72  uint64   the high half of the XXH3-128 of all that precedes it
//
// then the tokens, zeros up to a multiple of 8 bytes, and for each document a uint64: where among
// the tokens it ends. Documents follow each other without gaps, and none is empty. In version 5 an
// ImageTable follows.
//
// Version 6 holds pairs of answers: documents 2i and 2i + 1 are the better and the worse answer to
// one prompt, chosen and rejected, each with the prompt. An answer that is not there is a document
// of one token, which carries no loss. Tokens say whether they carry loss, and an ImageTable, maybe
// of no images, follows.
//
// Version 7 has TokenColumns behind the documents' ends, and then an ImageTable, maybe of no
// images. Its documents are no pairs.
//
// Version 3 has 0 in the last 8 bytes of the header.
// Version 2 has the first 56 bytes of the header and 8 bytes of zeros: no hash.
// Version 1 has the first 48 bytes of the header, with 0 in the last four, and the tokens: one
// stream, in which no document is known.
//
// A token file appears under its name only when it is complete: it is written under another name in
// the same folder and renamed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/data/files/file_mapping.h"
#include "longshore/data/rows/image_table.h"
#include "longshore/data/rows/token_columns.h"

namespace longshore::data {

// Whether each token of a file says if it carries loss; otherwise all do.
enum class LossMask { absent, present };

// Whether the documents of a file are pairs of answers, better and worse.
enum class Pairing { absent, present };

// A mapped token file. The header and the file's size are checked when it is opened, token ids and
// documents' ends when they are read; either fails with a DataError that names the file. While it
// is open the file may be replaced (by rename), but not be shortened.
class TokenFile {
 public:
  struct Range {
    int64_t first = 0, count = 0;
  };

  explicit TokenFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int64_t token_count() const { return token_count_; }
  int64_t document_count() const { return document_count_; }
  // False for version 1: the number of documents may be known, but not where they are.
  bool has_documents() const { return version_ > 1; }
  LossMask loss_mask() const { return loss_mask_; }
  // Whether documents 2i and 2i + 1 are a pair.
  bool has_pairs() const;
  int64_t skipped_lines() const { return skipped_lines_; }
  int32_t vocab_size() const { return vocab_size_; }
  uint64_t tokenizer_fingerprint() const { return tokenizer_fingerprint_; }

  // Tokens [first, first + out.size()).
  void read(int64_t first, std::span<int32_t> out) const;

  // Whether each of the tokens [first, first + out.size()) carries loss: 1 or 0.
  void read_loss_mask(int64_t first, std::span<uint8_t> out) const;

  // What stands beside each token; none before version 7.
  const std::vector<TokenColumn>& columns() const;
  const TokenColumn* column(std::string_view name) const;  // null where there is none
  bool has_column(std::string_view name) const { return column(name) != nullptr; }
  // Of the tokens from `first` on: see TokenColumns.
  void read_column(std::string_view name, int64_t first, int64_t width, std::span<float> out) const;
  void read_column(std::string_view name, int64_t first, int64_t width,
                   std::span<int32_t> out) const;

  // The tokens of a document; needs has_documents().
  Range document(int64_t index) const;

  // Where a document has images: their numbers, below image_count(). Needs has_documents().
  int64_t image_count() const { return images_ ? images_->count() : 0; }
  ImageTable::Range images(int64_t document) const;
  ImageReference image(int64_t number) const;
  // Without reading its bytes.
  bool has_embedded(int64_t number) const { return images_->is_embedded(number); }

  // Throws a DataError unless what follows the header has the hash that the header holds. Reads all
  // of it; returns early where `stop` asks for that, and at once before version 3, which has none.
  // Adds the bytes to `bytes_read` as they are read.
  void verify(std::stop_token stop, std::atomic<int64_t>* bytes_read = nullptr) const;

  // What tells token files apart: a hash of the file's size and of parts of it, all over the file.
  // From version 3 on the header, which is one of them, has a hash of everything; before, a change
  // between the parts is not seen.
  std::string identity() const;

  // Throws a ConfigError unless this file was made by the tokenizer with that fingerprint. `owner`
  // is what the message calls the other side, for instance the tokenizer's path.
  void require_tokenizer(uint64_t tokenizer_fingerprint, std::string_view owner) const;

 private:
  const std::byte* tokens_from(int64_t first, size_t count) const;
  uint64_t document_end(int64_t index) const;
  const TokenColumns& required_columns(std::string_view name) const;

  std::filesystem::path path_;
  FileMapping mapping_;
  uint32_t version_ = 0;
  int64_t header_bytes_ = 0;
  int bytes_per_token_ = 0;
  LossMask loss_mask_ = LossMask::absent;
  int64_t skipped_lines_ = 0;
  int64_t token_count_ = 0;
  int64_t document_count_ = 0;
  int32_t vocab_size_ = 0;
  uint64_t tokenizer_fingerprint_ = 0;
  std::array<uint64_t, 2> content_hash_{};
  std::optional<TokenColumns> columns_;  // from version 7 on
  std::optional<ImageTable> images_;     // from version 5 on
};

// Whether a file is one by its first bytes. Throws as FileMapping does.
bool begins_as_token_file(const std::filesystem::path& path);

// Writes a token file: any number of appends, then finish(). Without finish() nothing is left
// behind. Throws FileError where the file system refuses. Takes 8 bytes of memory a document, and
// what an ImageTableWriter takes. Until the end what stands beside tokens is in a file of its own.
class TokenFileWriter {
 public:
  // Pairs have a loss mask.
  TokenFileWriter(std::filesystem::path path, int32_t vocab_size, uint64_t tokenizer_fingerprint,
                  LossMask loss_mask = LossMask::absent, Pairing pairing = Pairing::absent,
                  std::vector<TokenColumn> columns = {});

  // A document. `carries_loss` has 1 or 0 for each token, or nothing: all do. Tokens outside the
  // vocabulary, an empty document and a 0 in a file without marks are InternalErrors: they come
  // from the tokenizer.
  void append(std::span<const int32_t> tokens, std::span<const uint8_t> carries_loss = {},
              std::span<const ImageReference> images = {});
  // What stands beside the next tokens, whether these are there yet or not: the values of all
  // columns of each, token by token, 4 bytes each.
  void append_beside(std::span<const std::byte> values) { columns_.append(values); }

  // Puts the file under its name, for good: contents and name are synced to the disk. An odd number
  // of documents of pairs is an InternalError, and other values beside tokens than all have.
  void finish(int64_t skipped_lines = 0);

  int64_t token_count() const { return token_count_; }
  int64_t document_count() const { return static_cast<int64_t>(document_ends_.size()); }
  int64_t image_count() const { return images_.count(); }

 private:
  void append_content(std::span<const std::byte> bytes);

  AtomicFile file_;
  ContentHash content_hash_;  // of what follows the header
  int32_t vocab_size_;
  uint64_t tokenizer_fingerprint_;
  LossMask loss_mask_;
  Pairing pairing_;
  int bytes_per_token_;
  int64_t token_count_ = 0;
  std::vector<uint64_t> document_ends_;
  ImageTableWriter images_;
  TokenColumnsWriter columns_;
  std::vector<std::byte> buffer_;  // of one append
};

}  // namespace longshore::data
