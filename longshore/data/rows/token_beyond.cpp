#include "longshore/data/rows/token_beyond.h"

#include <algorithm>
#include <vector>

namespace longshore::data {

std::optional<TokenBeyond> token_beyond(const TokenFile& file, int64_t vocab_size) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  std::vector<int32_t> ids;
  for (int64_t first = 0; first < file.token_count(); first += kPiece) {
    ids.resize(static_cast<size_t>(std::min(kPiece, file.token_count() - first)));
    file.read(first, ids);
    const auto found = std::ranges::find_if(ids, [&](int32_t id) { return id >= vocab_size; });
    if (found != ids.end())
      return TokenBeyond{.number = first + (found - ids.begin()), .id = *found};
  }
  return std::nullopt;
}

}  // namespace longshore::data
