// TokenColumns are the part of a token file that has numbers beside each of its tokens:
//
//   0   uint64   number of columns, 1 to 8
//
// then for each column 24 bytes of name, padded with zeros, a uint32 number of values of a token
// and a uint32 that says what they are, 0 float32 or 1 int32; for each token its values, column by
// column; and zeros up to a multiple of 8 bytes.
//
// What stands beside tokens are inputs of a batch, of these names alone: advantages, old_log_probs
// and reference_log_probs, a number each, and teacher_tokens and teacher_log_probs together, as
// many of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/spool_file.h"

namespace longshore::data {

struct TokenColumn {
  enum class Element : uint8_t { float32, int32 };

  std::string name;
  int64_t width = 1;  // values of a token
  Element element = Element::float32;

  bool operator==(const TokenColumn&) const = default;
};

// Reads them where they lie. Names and sizes are checked when they are opened, values when they are
// read; either throws a DataError without the file's name.
class TokenColumns {
 public:
  // `bytes` begins with them and must outlive this. Token ids are below `vocab_size`.
  TokenColumns(std::span<const std::byte> bytes, int64_t token_count, int64_t vocab_size);

  const std::vector<TokenColumn>& all() const { return columns_; }
  size_t bytes() const { return bytes_; }  // that they take

  // Of the tokens from `first` on, the first `width` values of each, as many as `out` has room for:
  // token ids, or -1 for none; log-probabilities, which old_log_probs need not have of every token
  // (NaN), and of which those of one token are of probabilities that sum to at most 1; or finite
  // numbers. Throws InternalError for a column or tokens that are not there.
  void read(std::string_view name, int64_t first, int64_t width, std::span<float> out) const;
  void read(std::string_view name, int64_t first, int64_t width, std::span<int32_t> out) const;

 private:
  void copy(std::string_view name, TokenColumn::Element element, int64_t first, int64_t width,
            std::span<std::byte> out) const;

  std::vector<TokenColumn> columns_;
  int64_t vocab_size_;
  std::span<const std::byte> values_;
  int64_t values_of_token_ = 0;
  size_t bytes_ = 0;
};

// Collects them, in a SpoolFile in the folder of `path`, which is the token file's. Throws
// FileError where the file system refuses.
class TokenColumnsWriter {
 public:
  // Without columns nothing is written.
  TokenColumnsWriter(std::filesystem::path path, std::vector<TokenColumn> columns);

  // The values of tokens, one after the other, each with those of all columns.
  void append(std::span<const std::byte> values) { values_.append(values); }
  int64_t bytes() const { return values_.bytes(); }
  int64_t bytes_of_token() const { return bytes_of_token_; }
  bool has_any() const { return !columns_.empty(); }

  // Hands their bytes over piece by piece.
  void write(const std::function<void(std::span<const std::byte>)>& append);

 private:
  std::vector<TokenColumn> columns_;
  SpoolFile values_;
  int64_t bytes_of_token_ = 0;
};

}  // namespace longshore::data
