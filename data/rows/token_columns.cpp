#include "data/rows/token_columns.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/round_up.h"

namespace longshore::data {
namespace {

constexpr size_t kNameBytes = 24, kValueBytes = 4, kPadding = 8;
constexpr uint64_t kMostColumns = 8;
constexpr uint32_t kMostWidth = 1 << 16;

struct Entry {
  std::array<char, kNameBytes> name;
  uint32_t width, element;
};
static_assert(sizeof(Entry) == 32);

[[noreturn]] void refuse(const std::string& what) {
  throw DataError("truncated or corrupt: " + what);
}

template <class T>
T value_at(std::span<const std::byte> bytes, size_t at) {
  T value;  // the mapped file need not be aligned
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

int64_t widths(const std::vector<TokenColumn>& columns) {
  int64_t sum = 0;
  for (const TokenColumn& column : columns) sum += column.width;
  return sum;
}

TokenColumn column_of(const Entry& entry) {
  const std::string_view all(entry.name.data(), kNameBytes);
  const std::string name(all.substr(0, all.find('\0')));
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
  if (!is_name) refuse("a column is named " + in_quotes(name));
  if (entry.width < 1 || entry.width > kMostWidth || entry.element > 1)
    refuse("column " + name + " has " + std::to_string(entry.width) + " values of kind " +
           std::to_string(entry.element));
  return {name, entry.width, static_cast<TokenColumn::Element>(entry.element)};
}

}  // namespace

TokenColumns::TokenColumns(std::span<const std::byte> bytes, int64_t token_count) {
  uint64_t count = 0;
  if (bytes.size() >= sizeof count) count = value_at<uint64_t>(bytes, 0);
  if (count < 1 || count > kMostColumns || bytes.size() < sizeof count + count * sizeof(Entry))
    refuse(std::to_string(count) + " columns, expected 1 to " + std::to_string(kMostColumns));
  size_t at = sizeof count;
  for (uint64_t i = 0; i < count; ++i, at += sizeof(Entry)) {
    columns_.push_back(column_of(value_at<Entry>(bytes, at)));
    const auto same = [&](const TokenColumn& one) { return one.name == columns_.back().name; };
    if (std::ranges::count_if(columns_, same) > 1) refuse("two columns " + columns_.back().name);
  }
  values_of_token_ = widths(columns_);
  const uint64_t of_token = static_cast<uint64_t>(values_of_token_) * kValueBytes;
  const uint64_t left = bytes.size() - at;
  if (static_cast<uint64_t>(token_count) > left / of_token ||
      static_cast<uint64_t>(round_up(token_count * static_cast<int64_t>(of_token), kPadding)) >
          left)
    refuse("columns of " + std::to_string(token_count) +
           " tokens, more than the file has bytes for");
  const uint64_t of_all = static_cast<uint64_t>(token_count) * of_token;
  values_ = bytes.subspan(at, of_all);
  bytes_ = at + round_up(of_all, kPadding);
}

void TokenColumns::copy(std::string_view name, TokenColumn::Element element, int64_t first,
                        int64_t width, std::span<std::byte> out) const {
  int64_t offset = 0;
  auto column = columns_.begin();
  for (; column != columns_.end() && column->name != name; ++column) offset += column->width;
  const int64_t each = width * int64_t{kValueBytes};
  const int64_t tokens = width < 1 ? 0 : std::ssize(out) / each;
  const bool is_there =
      column != columns_.end() && column->element == element && width >= 1 &&
      width <= column->width && tokens * each == std::ssize(out) && first >= 0 &&
      (first + tokens) * values_of_token_ * int64_t{kValueBytes} <= std::ssize(values_);
  if (!is_there)
    throw InternalError("column " + std::string(name) + " of " + std::to_string(width) +
                        " values, from token " + std::to_string(first) + " on");
  const std::byte* from =
      values_.data() + static_cast<size_t>(first * values_of_token_ + offset) * kValueBytes;
  for (int64_t token = 0; token < tokens; ++token) {
    std::memcpy(out.data() + token * each, from, static_cast<size_t>(each));
    from += static_cast<size_t>(values_of_token_) * kValueBytes;
  }
}

void TokenColumns::read(std::string_view name, int64_t first, int64_t width,
                        std::span<float> out) const {
  copy(name, TokenColumn::Element::float32, first, width, std::as_writable_bytes(out));
}

void TokenColumns::read(std::string_view name, int64_t first, int64_t width,
                        std::span<int32_t> out) const {
  copy(name, TokenColumn::Element::int32, first, width, std::as_writable_bytes(out));
}

TokenColumnsWriter::TokenColumnsWriter(std::filesystem::path path, std::vector<TokenColumn> columns)
    : columns_(std::move(columns)),
      values_(std::move(path)),
      bytes_of_token_(widths(columns_) * int64_t{kValueBytes}) {
  for (const TokenColumn& column : columns_)
    if (column.name.size() > kNameBytes) throw InternalError("column " + column.name);
}

void TokenColumnsWriter::write(const std::function<void(std::span<const std::byte>)>& append) {
  if (!has_any()) return;
  const uint64_t count = columns_.size();
  append(std::as_bytes(std::span(&count, 1)));
  for (const TokenColumn& column : columns_) {
    Entry entry{.name = {},
                .width = static_cast<uint32_t>(column.width),
                .element = static_cast<uint32_t>(column.element)};
    std::ranges::copy(column.name, entry.name.begin());
    append(std::as_bytes(std::span(&entry, 1)));
  }
  values_.read(append);
  const int64_t bytes = values_.bytes();
  append(std::vector<std::byte>(static_cast<size_t>(round_up(bytes, int64_t{kPadding}) - bytes)));
}

}  // namespace longshore::data
