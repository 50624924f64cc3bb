#include "longshore/base/printable.h"

#include <algorithm>
#include <array>

#include "longshore/base/utf8.h"

namespace longshore {
namespace {

struct Range {
  char32_t first, last;
};

// Unicode 15.0, beyond ASCII: the categories Cc, Zl and Zp, and those of Cf that show nothing.
constexpr std::array kUnprintable{
    Range{0x80, 0x9f},       Range{0xad, 0xad},       Range{0x61c, 0x61c},
    Range{0x180e, 0x180e},   Range{0x200b, 0x200f},   Range{0x2028, 0x202e},
    Range{0x2060, 0x206f},   Range{0xfeff, 0xfeff},   Range{0xfff9, 0xfffb},
    Range{0x1bca0, 0x1bca3}, Range{0x1d173, 0x1d17a}, Range{0xe0000, 0xe007f},
};

bool is_unprintable(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7f;
  return std::ranges::any_of(
      kUnprintable, [&](const Range& range) { return range.first <= code && code <= range.last; });
}

std::string hex(char32_t code, int digits) {
  std::string text;
  for (int i = digits - 1; i >= 0; --i) text += "0123456789abcdef"[code >> (4 * i) & 15];
  return text;
}

std::string escaped(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (code < 0x80) return "\\x" + hex(code, 2);
  return code < 0x10000 ? "\\u" + hex(code, 4) : "\\U" + hex(code, 8);
}

// `stays` says which of the characters that are not printable are written as they are.
template <class Stays>
std::string escape(std::string_view text, Stays stays) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t length = character_length(text);
    if (length == 0) {
      shown += "\\x" + hex(static_cast<unsigned char>(text[0]), 2);
      text.remove_prefix(1);
      continue;
    }
    const char32_t code = first_character(text).code_point;
    if (is_unprintable(code) && !stays(code))
      shown += escaped(code);
    else
      shown += text.substr(0, length);
    text.remove_prefix(length);
  }
  return shown;
}

std::string said_length(std::string_view text) {
  return " (" + std::to_string(text.size()) + " bytes)";
}

std::string with_backslashes(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// Of a text that says the most at its ends.
std::string both_ends(std::string_view text) {
  constexpr size_t kMost = 1024;
  if (text.size() <= kMost) return printable(text);
  return printable(first_bytes(text, kMost / 2)) + "..." + printable(last_bytes(text, kMost / 2)) +
         said_length(text);
}

}  // namespace

std::string printable(std::string_view text) {
  return escape(text, [](char32_t) { return false; });
}

std::string excerpt(std::string_view text, size_t most) {
  if (text.size() <= most) return printable(text);
  return printable(first_bytes(text, most)) + "..." + said_length(text);
}

std::string library_message(std::string_view message) { return both_ends(message); }

std::string in_quotes(std::string_view text) {
  const bool is_long = text.size() > kMostOfExcerpt;
  const std::string_view shown = is_long ? first_bytes(text, kMostOfExcerpt) : text;
  return "\"" + printable(with_backslashes(shown)) + (is_long ? "...\"" + said_length(text) : "\"");
}

std::string path_text(const std::filesystem::path& path) { return both_ends(path.native()); }

std::string printable_lines(std::string_view text) {
  constexpr std::u32string_view kStays = U"\n\t\u00ad\u200c\u200d";
  return escape(text, [&](char32_t code) { return kStays.find(code) != kStays.npos; });
}

}  // namespace longshore
