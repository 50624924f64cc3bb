// TokenColumns are the part of a token file that has numbers beside each of its tokens:
//
//   0   uint64   number of columns, 1 to 8
//
// then for each column 24 bytes of name, padded with zeros, a uint32 number of values of a token
// and a uint32 0, which says that they are float32; for each token its values, column by column;
// and zeros up to a multiple of 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

struct TokenColumn {
  std::string name;
  int64_t width = 1;  // values of a token

  bool operator==(const TokenColumn&) const = default;
};

// Reads them where they lie. Sizes are checked when they are opened, which throws a DataError
// without the file's name.
class TokenColumns {
 public:
  // `bytes` begins with them and must outlive this.
  TokenColumns(std::span<const std::byte> bytes, int64_t token_count);

  const std::vector<TokenColumn>& all() const { return columns_; }
  size_t bytes() const { return bytes_; }  // that they take

  // Of the tokens from `first` on, as many as `out` has room for. Throws InternalError for a column
  // or tokens that are not there.
  void read(std::string_view name, int64_t first, std::span<float> out) const;

 private:
  std::vector<TokenColumn> columns_;
  std::span<const std::byte> values_;
  int64_t values_of_token_ = 0;
  size_t bytes_ = 0;
};

// Collects them, in memory.
class TokenColumnsWriter {
 public:
  // Names of at most 24 bytes; none: nothing is written.
  explicit TokenColumnsWriter(std::vector<TokenColumn> columns);

  // The values of tokens, one after the other, each with those of all columns.
  void append(std::span<const float> values) {
    values_.insert(values_.end(), values.begin(), values.end());
  }
  int64_t values_of_token() const { return values_of_token_; }
  bool has_any() const { return !columns_.empty(); }

  // Hands their bytes over piece by piece.
  void write(const std::function<void(std::span<const std::byte>)>& append) const;

 private:
  std::vector<TokenColumn> columns_;
  std::vector<float> values_;
  int64_t values_of_token_ = 0;
};

}  // namespace longshore::data
