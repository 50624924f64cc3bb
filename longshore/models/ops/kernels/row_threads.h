// Deals out rows to the threads of blocks: where rows are as short as heads, some lanes of a warp
// have a row, else a block.
#pragma once

#include <cstdint>

#include "longshore/base/device.h"

namespace longshore::models {

struct WholeBlock {
  template <class Group>
  static LONGSHORE_DEVICE int groups(const Group&) {
    return 1;
  }
  template <class Group, class F>
  static LONGSHORE_BODY void on_each(Group& group, F f) {
    f(group, 0);
  }
};
template <int kLanes>
struct Lanes {
  template <class Group>
  static LONGSHORE_BODY int groups(const Group& group) {
    return group.threads() / kLanes;
  }
  template <class Group, class F>
  static LONGSHORE_BODY void on_each(Group& group, F f) {
    group.template split<kLanes>(f);
  }
};

inline constexpr int64_t kLongestShortRow = 512;

// Calls f(groups of a block, the threads for a row) for rows of `vectors` vectors.
template <class F>
void with_row_threads(int64_t width, int64_t vectors, int block_threads, F f) {
  if (width > kLongestShortRow)
    f(1, WholeBlock{});
  else if (vectors <= 16)
    f(block_threads / 16, Lanes<16>{});
  else
    f(block_threads / 32, Lanes<32>{});
}

}  // namespace longshore::models
