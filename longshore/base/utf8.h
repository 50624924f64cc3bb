// Characters of UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longshore {

// Length in bytes of the character that `text`, which is not empty, begins with; 0 where that is
// not valid UTF-8.
size_t character_length(std::string_view text);

// Length of the longest prefix that is valid UTF-8: text.size() when all of it is. Overlong forms,
// surrogates and what lies beyond U+10FFFF are not valid.
size_t valid_utf8_prefix(std::string_view text);

// "invalid UTF-8: found 0xE9 at byte 4 of the line"; empty when all of the line is valid.
std::string utf8_fault(std::string_view line);

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // before a text, no part of it

inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";  // U+FFFD

// `text` with each maximal part of a character that is not valid replaced by one U+FFFD, as the
// Unicode standard recommends (chapter 3.9).
std::string replace_invalid_utf8(std::string_view text);

// The most of the beginning or the end of `text` that has at most `size` bytes and does not divide
// a character.
std::string_view first_bytes(std::string_view text, size_t size);
std::string_view last_bytes(std::string_view text, size_t size);

struct Character {
  char32_t code_point = 0;
  size_t bytes = 0;
};

// The character at the head of `text`, which is not empty and valid UTF-8.
inline Character first_character(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto rest = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3f); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | rest(1), 2};
  if (lead < 0xf0) return {(lead & 0xf) << 12 | rest(1) << 6 | rest(2), 3};
  return {(lead & 7) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3), 4};
}

// Where the last character of `text` begins, which is not empty and valid UTF-8.
inline size_t last_character_at(std::string_view text) {
  size_t at = text.size() - 1;
  while ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

// How many bytes at the head, or at the end, of valid UTF-8 are characters for which `is` holds.
template <class Is>
size_t bytes_at_head(std::string_view text, Is is) {
  size_t length = 0;
  while (length < text.size()) {
    const Character character = first_character(text.substr(length));
    if (!is(character.code_point)) break;
    length += character.bytes;
  }
  return length;
}
template <class Is>
size_t bytes_at_end(std::string_view text, Is is) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t at = last_character_at(text.substr(0, begin));
    if (!is(first_character(text.substr(at)).code_point)) break;
    begin = at;
  }
  return text.size() - begin;
}

}  // namespace longshore
