// The byte-level alphabet: how a tokenizer.json spells tokens that are bytes, a character for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longshore::data {

// The character that stands for a byte.
const std::string& byte_level_spelling(uint8_t byte);
// Those that stand for bytes.
std::string byte_level_spelling(std::string_view bytes);

// The bytes that the characters stand for; nothing where one stands for none.
std::optional<std::string> bytes_of_level(std::string_view token);

}  // namespace longshore::data
