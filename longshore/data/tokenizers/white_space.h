// The characters of Unicode's property White_Space, which no longer changes.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "longshore/data/tokenizers/character_set.h"

namespace longshore::data {

std::span<const CharacterRange> white_space();

// How many bytes at the head, or at the end, of valid UTF-8 are white space.
size_t white_space_at_head(std::string_view text);
size_t white_space_at_end(std::string_view text);

// Whether it holds nothing else.
inline bool is_white_space(std::string_view text) {
  return white_space_at_head(text) == text.size();
}

}  // namespace longshore::data
