#include "offload/arena.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace longshore::offload {

int64_t place(std::span<Block> blocks) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return blocks[a].bytes > blocks[b].bytes; });

  std::vector<int> placed;  // by offset
  int64_t size = 0;
  for (int index : order) {
    Block& block = blocks[index];
    int64_t offset = 0;
    for (int other_index : placed) {
      const Block& other = blocks[other_index];
      if (other.last < block.first || block.last < other.first) continue;
      if (offset + block.bytes <= other.offset) break;
      offset = std::max(offset, align_up(other.offset + other.bytes));
    }
    block.offset = offset;
    size = std::max(size, align_up(offset + block.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](int64_t value, int i) { return value < blocks[i].offset; }),
                  index);
  }
  return size;
}

}  // namespace longshore::offload
