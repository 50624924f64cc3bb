#include "longshore/data/rows/token_columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/round_up.h"
#include "longshore/data/rows/batch.h"

namespace longshore::data {
namespace {

constexpr size_t kNameBytes = 24, kValueBytes = 4, kMultiple = 8;
constexpr uint64_t kMostColumns = 8;
constexpr uint32_t kMostWidth = 1 << 16;

enum class Values : uint8_t { numbers, log_probs, log_probs_or_none, ids };

struct Known {
  const char* name;
  Values values;
  bool is_list = false;  // any number of a token; otherwise one

  TokenColumn::Element element() const {
    return values == Values::ids ? TokenColumn::Element::int32 : TokenColumn::Element::float32;
  }
};

constexpr Known kKnown[] = {{kAdvantages, Values::numbers},
                            {kOldLogProbs, Values::log_probs_or_none},
                            {kReferenceLogProbs, Values::log_probs},
                            {kTeacherTokens, Values::ids, true},
                            {kTeacherLogProbs, Values::log_probs, true}};

const Known* known(std::string_view name) {
  const Known* const found = std::ranges::find(kKnown, name, &Known::name);
  return found == std::end(kKnown) ? nullptr : found;
}

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
  const Known* const column = known(name);
  if (!column) refuse("a column is named " + in_quotes(name));
  const uint32_t most = column->is_list ? kMostWidth : 1;
  const auto element = static_cast<uint32_t>(column->element());
  if (entry.width < 1 || entry.width > most || entry.element != element)
    refuse("column " + name + " has " + std::to_string(entry.width) + " values of kind " +
           std::to_string(entry.element) + ", expected 1" +
           (most > 1 ? " to " + std::to_string(most) : "") + " of kind " + std::to_string(element));
  return {name, entry.width, column->element()};
}

// What a teacher says has two columns.
void require_pair(const std::vector<TokenColumn>& columns) {
  const auto width = [&](const char* name) {
    const auto found = std::ranges::find(columns, name, &TokenColumn::name);
    return found == columns.end() ? 0 : found->width;
  };
  if (width(kTeacherTokens) != width(kTeacherLogProbs))
    refuse(std::to_string(width(kTeacherTokens)) + " " + kTeacherTokens + " for " +
           std::to_string(width(kTeacherLogProbs)) + " " + kTeacherLogProbs);
}

[[noreturn]] void refuse_value(std::string_view name, int64_t token, const std::string& found,
                               const char* expected) {
  throw DataError("corrupt: " + std::string(name) + " of token " + std::to_string(token) +
                  ": found " + found + ", expected " + expected);
}

void check_numbers(const Known& column, int64_t first, int64_t width,
                   std::span<const float> values) {
  const bool are_log_probs = column.values != Values::numbers;
  const auto fits = [&](float value) {
    if (std::isnan(value)) return column.values == Values::log_probs_or_none;
    return are_log_probs ? value >= kLeastLogProb && value <= kMostLogProb : std::isfinite(value);
  };
  const auto token = [&](size_t i) { return first + static_cast<int64_t>(i) / width; };
  for (size_t i = 0; i < values.size(); ++i)
    if (!fits(values[i]))
      refuse_value(column.name, token(i), std::isnan(values[i]) ? "nan" : std::to_string(values[i]),
                   are_log_probs ? "a log-probability, at most 0" : "a finite number");
  if (!column.is_list) return;
  constexpr float kMostProbability = 1.001F;  // rounded
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(width)) {
    float sum = 0;
    for (const float value : values.subspan(i, static_cast<size_t>(width))) sum += std::exp(value);
    if (sum > kMostProbability)
      refuse_value(column.name, token(i), "probabilities that sum to " + std::to_string(sum),
                   "at most 1");
  }
}

}  // namespace

TokenColumns::TokenColumns(std::span<const std::byte> bytes, int64_t token_count,
                           int64_t vocab_size)
    : vocab_size_(vocab_size) {
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
  require_pair(columns_);
  values_of_token_ = widths(columns_);
  const uint64_t of_token = static_cast<uint64_t>(values_of_token_) * kValueBytes;
  const uint64_t left = bytes.size() - at;
  if (static_cast<uint64_t>(token_count) > left / of_token ||
      static_cast<uint64_t>(round_up(token_count * static_cast<int64_t>(of_token), kMultiple)) >
          left)
    refuse("columns of " + std::to_string(token_count) +
           " tokens, more than the file has bytes for");
  const uint64_t of_all = static_cast<uint64_t>(token_count) * of_token;
  values_ = bytes.subspan(at, of_all);
  bytes_ = at + round_up(of_all, kMultiple);
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
  check_numbers(*known(name), first, width, out);
}

void TokenColumns::read(std::string_view name, int64_t first, int64_t width,
                        std::span<int32_t> out) const {
  copy(name, TokenColumn::Element::int32, first, width, std::as_writable_bytes(out));
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] < kIgnoredTarget || out[i] >= vocab_size_)
      refuse_value(name, first + static_cast<int64_t>(i) / width, std::to_string(out[i]),
                   ("-1 or an id below " + std::to_string(vocab_size_)).c_str());
}

TokenColumnsWriter::TokenColumnsWriter(std::filesystem::path path, std::vector<TokenColumn> columns)
    : columns_(std::move(columns)),
      values_(std::move(path)),
      bytes_of_token_(widths(columns_) * int64_t{kValueBytes}) {
  for (const TokenColumn& column : columns_)
    if (const Known* const one = known(column.name); !one || one->element() != column.element)
      throw InternalError("column " + column.name);
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
  append(std::vector<std::byte>(static_cast<size_t>(round_up(bytes, int64_t{kMultiple}) - bytes)));
}

}  // namespace longshore::data
