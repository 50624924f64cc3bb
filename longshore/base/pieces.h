// for_each_piece() works through a range piece by piece, so that memory is needed for one piece at
// a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longshore {

// f(first, count) for the pieces of [0, total) in order, each of `piece` and the last of the rest.
template <class F>
void for_each_piece(int64_t total, int64_t piece, F f) {
  for (int64_t first = 0; first < total; first += piece) f(first, std::min(piece, total - first));
}

}  // namespace longshore
