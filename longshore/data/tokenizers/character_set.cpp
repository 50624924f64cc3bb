#include "longshore/data/tokenizers/character_set.h"

#include <algorithm>

namespace longshore::data {

CharacterSet character_set(std::vector<CharacterRange> ranges) {
  std::ranges::sort(ranges);
  CharacterSet set;
  for (const CharacterRange& range : ranges) {
    if (!set.empty() && range.first <= set.back().last + 1)
      set.back().last = std::max(set.back().last, range.last);
    else
      set.push_back(range);
  }
  return set;
}

CharacterSet complement(std::span<const CharacterRange> set) {
  constexpr char32_t kEnd = 0x110000;
  CharacterSet others;
  char32_t next = 0;
  for (const CharacterRange& range : set) {
    if (next < range.first) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next < kEnd) others.push_back({next, kEnd - 1});
  return others;
}

bool contains(std::span<const CharacterRange> set, char32_t character) {
  const auto after = std::ranges::upper_bound(set, character, {}, &CharacterRange::first);
  return after != set.begin() && character <= std::prev(after)->last;
}

}  // namespace longshore::data
