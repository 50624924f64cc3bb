// Reads integers out of texts of others.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace longshore {

// The number that the whole text is, in decimal; nothing for any other text, and for a number that
// T cannot hold.
template <class T>
std::optional<T> integer(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace longshore
