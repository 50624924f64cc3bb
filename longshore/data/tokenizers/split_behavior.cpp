#include "longshore/data/tokenizers/split_behavior.h"

namespace longshore::data {
namespace {

bool belongs_to_one_before(const SplitPart& before, const SplitPart& part, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::merged_with_previous:
      return part.matches && !before.matches;
    case SplitBehavior::merged_with_next:
      return before.matches && !part.matches;
    case SplitBehavior::contiguous:
      return before.matches == part.matches;
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      break;
  }
  return false;
}

}  // namespace

void append_pieces(std::span<const SplitPart> parts, SplitBehavior behavior,
                   std::vector<std::string_view>& pieces) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string_view text = parts[i].text;
    if (behavior == SplitBehavior::removed && parts[i].matches) continue;
    if (i > 0 && belongs_to_one_before(parts[i - 1], parts[i], behavior)) {
      std::string_view& piece = pieces.back();
      piece = {piece.data(), piece.size() + text.size()};
    } else if (!text.empty()) {
      pieces.push_back(text);
    }
  }
}

}  // namespace longshore::data
