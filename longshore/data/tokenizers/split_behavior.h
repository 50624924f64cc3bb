// A SplitBehavior says how a pre-tokenizer cuts a text at what matches.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace longshore::data {

// A match, or what lies between two.
struct SplitPart {
  std::string_view text;
  bool matches = false;
};

enum class SplitBehavior {
  removed,               // matches are left out
  isolated,              // each part is a piece
  merged_with_previous,  // a match belongs to what is before it, unless that is a match
  merged_with_next,      // a match belongs to what is behind it, unless that is a match
  contiguous,            // matches beside each other are one piece
};

// Appends the pieces that the parts of a text become, which follow each other without gaps.
void append_pieces(std::span<const SplitPart> parts, SplitBehavior behavior,
                   std::vector<std::string_view>& pieces);

}  // namespace longshore::data
