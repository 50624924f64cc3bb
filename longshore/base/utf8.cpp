#include "longshore/base/utf8.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace longshore {
namespace {

// How many bytes at the head of `text`, which begins with no valid character, begin one: at
// least 1.
size_t invalid_part_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0xe0 || lead > 0xf4 || text.size() == 1) return 1;
  const uint8_t second = byte(1);
  const uint8_t lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (second < lowest || second > highest) return 1;
  const bool third_belongs = lead >= 0xf0 && text.size() > 2 && (byte(2) & 0xc0) == 0x80;
  return third_belongs ? 3 : 2;
}

// Text that is not UTF-8 may have any number of them.
constexpr int kMostContinuations = 3;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

size_t character_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const uint8_t second = byte(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool too_large = lead == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight_bytes;
    while (at + sizeof eight_bytes <= text.size()) {
      std::memcpy(&eight_bytes, text.data() + at, sizeof eight_bytes);
      if (eight_bytes & 0x8080808080808080) break;
      at += sizeof eight_bytes;
    }
    if (at == text.size()) break;
    const size_t length = character_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string utf8_fault(std::string_view line) {
  const size_t valid_bytes = valid_utf8_prefix(line);
  if (valid_bytes == line.size()) return "";
  char byte[5];
  std::snprintf(byte, sizeof byte, "0x%02X", static_cast<unsigned char>(line[valid_bytes]));
  return "invalid UTF-8: found " + std::string(byte) + " at byte " +
         std::to_string(valid_bytes + 1) + " of the line";
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (true) {
    const size_t length = valid_utf8_prefix(text);
    valid += text.substr(0, length);
    text.remove_prefix(length);
    if (text.empty()) return valid;
    valid += kReplacementCharacter;
    text.remove_prefix(invalid_part_length(text));
  }
}

std::string_view first_bytes(std::string_view text, size_t size) {
  if (size >= text.size()) return text;
  for (int i = 0; i < kMostContinuations && size > 0 && is_continuation(text[size]); ++i) --size;
  return text.substr(0, size);
}

std::string_view last_bytes(std::string_view text, size_t size) {
  if (size >= text.size()) return text;
  text.remove_prefix(text.size() - size);
  for (int i = 0; i < kMostContinuations && !text.empty() && is_continuation(text[0]); ++i)
    text.remove_prefix(1);
  return text;
}

}  // namespace longshore
