// Sets of characters.
#pragma once

#include <span>
#include <vector>

namespace longshore::data {

// Code points, both ends included.
struct CharacterRange {
  char32_t first = 0, last = 0;
  auto operator<=>(const CharacterRange&) const = default;
};

// Ascending, with a gap between any two.
using CharacterSet = std::vector<CharacterRange>;

// What any of the ranges has, which may overlap and stand in any order.
CharacterSet character_set(std::vector<CharacterRange> ranges);

// All other code points up to U+10FFFF.
CharacterSet complement(std::span<const CharacterRange> set);

bool contains(std::span<const CharacterRange> set, char32_t character);

}  // namespace longshore::data
