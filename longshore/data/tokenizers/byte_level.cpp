#include "longshore/data/tokenizers/byte_level.h"

#include <array>
#include <unordered_map>

#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

// Printable characters of Latin-1 for themselves, and U+0100 and following for the other bytes in
// their order.
std::array<char32_t, 256> alphabet() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}

// Of one byte in UTF-8 or two: there are none behind U+0143.
std::string utf8(char32_t character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xc0 | character >> 6), static_cast<char>(0x80 | (character & 0x3f))};
}

}  // namespace

const std::string& byte_level_spelling(uint8_t byte) {
  static const auto spellings = [] {
    std::array<std::string, 256> all;
    for (size_t each = 0; each < 256; ++each) all[each] = utf8(alphabet()[each]);
    return all;
  }();
  return spellings[byte];
}

std::string byte_level_spelling(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) spelling += byte_level_spelling(static_cast<uint8_t>(byte));
  return spelling;
}

std::optional<std::string> bytes_of_level(std::string_view token) {
  static const auto byte_of = [] {
    std::unordered_map<char32_t, uint8_t> bytes;
    for (const char32_t character : alphabet())
      bytes.emplace(character, static_cast<uint8_t>(bytes.size()));
    return bytes;
  }();
  std::string bytes;
  while (!token.empty()) {
    const Character character = first_character(token);
    const auto byte = byte_of.find(character.code_point);
    if (byte == byte_of.end()) return std::nullopt;
    bytes += static_cast<char>(byte->second);
    token.remove_prefix(character.bytes);
  }
  return bytes;
}

}  // namespace longshore::data
