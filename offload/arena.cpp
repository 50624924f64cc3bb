#include "offload/arena.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

namespace longshore::offload {
namespace {

bool wraps(const Block& block) { return block.first > block.last; }

bool meet(const Block& a, const Block& b) {
  if (wraps(a) && wraps(b)) return true;
  if (wraps(a) || wraps(b)) return a.last >= b.first || b.last >= a.first;
  return a.last >= b.first && b.last >= a.first;
}

// The first time at which nothing needs a place any more.
int end_of(std::span<const Block> blocks) {
  int end = 0;
  for (const Block& block : blocks) end = std::max({end, block.first + 1, block.last + 1});
  return end;
}

// Blocks that have a place: by time, and by offset within a stretch of time.
class Placed {
 public:
  explicit Placed(std::span<const Block> blocks) : blocks_(blocks), seen_(blocks.size(), -1) {
    stretches_.resize(end_of(blocks) / kStretch + 1);
  }

  struct ByOffset {
    std::span<const Block> blocks;
    bool operator()(int a, int b) const { return blocks[a].offset < blocks[b].offset; }
  };

  void add(int index) {
    each_stretch(blocks_[index], [&](int s) {
      std::vector<int>& placed = stretches_[s];
      placed.insert(std::upper_bound(placed.begin(), placed.end(), index, ByOffset{blocks_}),
                    index);
    });
  }

  // The lowest offset that is free throughout a block's life.
  int64_t lowest_free(int index) {
    const Block& block = blocks_[index];
    if (!wraps(block) && block.first / kStretch == block.last / kStretch)
      return lowest_free(block, stretches_[block.first / kStretch]);
    found_.clear();
    each_stretch(block, [&](int s) {
      for (int other : stretches_[s])
        if (seen_[other] != index && meet(block, blocks_[other])) {
          seen_[other] = index;
          found_.push_back(other);
        }
    });
    std::sort(found_.begin(), found_.end(), ByOffset{blocks_});
    return lowest_free(block, found_);
  }

 private:
  static constexpr int kStretch = 32;  // instructions

  // `others` by offset; those that are not alive together with the block do not matter.
  int64_t lowest_free(const Block& block, const std::vector<int>& others) const {
    int64_t offset = 0;
    for (int index : others) {
      const Block& other = blocks_[index];
      if (!meet(block, other)) continue;
      if (offset + block.bytes <= other.offset) break;
      offset = std::max(offset, align_up(other.offset + other.bytes));
    }
    return offset;
  }

  template <class F>
  void each_stretch(const Block& block, F f) const {
    int last = wraps(block) ? static_cast<int>(stretches_.size()) - 1 : block.last / kStretch;
    for (int s = block.first / kStretch; s <= last; ++s) f(s);
    if (!wraps(block)) return;
    for (int s = 0; s <= block.last / kStretch; ++s) f(s);
  }

  std::span<const Block> blocks_;
  std::vector<std::vector<int>> stretches_;
  std::vector<int> seen_, found_;
};

// Each block in that order at the lowest offset that is free throughout its life.
int64_t place_in_order(std::span<Block> blocks, const std::vector<int>& order) {
  Placed placed(blocks);
  int64_t size = 0;
  for (int index : order) {
    const Block& block = blocks[index];
    if (!block.is_fixed) continue;
    size = std::max(size, align_up(block.offset + block.bytes));
    placed.add(index);
  }
  for (int index : order) {
    Block& block = blocks[index];
    if (block.is_fixed) continue;
    block.offset = placed.lowest_free(index);
    size = std::max(size, align_up(block.offset + block.bytes));
    placed.add(index);
  }
  return size;
}

// What is alive at once, at most: no arena is smaller.
int64_t most_alive(std::span<const Block> blocks) {
  std::map<int, int64_t> change;
  for (const Block& block : blocks) {
    change[block.first] += align_up(block.bytes);
    change[block.last + 1] -= align_up(block.bytes);
    if (wraps(block)) change[0] += align_up(block.bytes);
  }
  int64_t alive = 0, most = 0;
  for (const auto& [time, bytes] : change) most = std::max(most, alive += bytes);
  return most;
}

double area(const Block& block, int end) {
  int life = block.last - block.first + 1 + (wraps(block) ? end : 0);
  return static_cast<double>(block.bytes) * life;
}

}  // namespace

int64_t place(std::span<Block> blocks) {
  if (blocks.empty()) return 0;
  using Before = std::function<bool(const Block&, const Block&)>;
  const Before kOrders[] = {
      [end = end_of(blocks)](const Block& a, const Block& b) {
        return area(a, end) > area(b, end);
      },
      [](const Block& a, const Block& b) { return a.first < b.first; },
      [](const Block& a, const Block& b) { return a.bytes > b.bytes; },
  };
  int64_t bound = most_alive(blocks), best = std::numeric_limits<int64_t>::max();
  std::vector<Block> attempt(blocks.begin(), blocks.end());
  for (const Before& before : kOrders) {
    std::vector<int> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return before(blocks[a], blocks[b]); });
    int64_t size = place_in_order(attempt, order);
    if (size < best) {
      best = size;
      std::copy(attempt.begin(), attempt.end(), blocks.begin());
    }
    if (best == bound) break;
  }
  return best;
}

}  // namespace longshore::offload
