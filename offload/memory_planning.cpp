#include "offload/memory_planning.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "offload/alignment.h"

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

// Blocks that have a place, by offset: long-lived ones in one list, the others in those of the
// stretches of time in which they live.
class Placed {
 public:
  explicit Placed(std::span<const Block> blocks) : blocks_(blocks), seen_(blocks.size(), -1) {
    lists_.resize(1 + end_of(blocks) / kStretch + 1);
  }

  void add(int index) {
    const Block& block = blocks_[index];
    if (!is_short(block)) return insert(index, lists_[0]);
    for (int s = first_list(block); s <= last_list(block); ++s) insert(index, lists_[s]);
  }

  // The lowest offset that is free throughout a block's life.
  int64_t lowest_free(int index) {
    const Block& block = blocks_[index];
    static const std::vector<int> kNone;
    if (is_short(block)) {
      const std::vector<int>& first = lists_[first_list(block)];
      bool has_second = last_list(block) > first_list(block);
      return lowest_free(block,
                         {&lists_[0], &first, has_second ? &lists_[last_list(block)] : &kNone});
    }
    found_.clear();
    auto find = [&](int first, int last) {
      for (int s = first; s <= last; ++s)
        for (int other : lists_[s])
          if (seen_[other] != index && meet(block, blocks_[other])) {
            seen_[other] = index;
            found_.push_back(other);
          }
    };
    int end = static_cast<int>(lists_.size()) - 1;
    find(first_list(block), wraps(block) ? end : last_list(block));
    if (wraps(block)) find(1, last_list(block));
    std::sort(found_.begin(), found_.end(), ByOffset{blocks_});
    return lowest_free(block, {&lists_[0], &found_, &kNone});
  }

 private:
  static constexpr int kStretch = 128;  // instructions

  struct ByOffset {
    std::span<const Block> blocks;
    bool operator()(int a, int b) const { return blocks[a].offset < blocks[b].offset; }
  };

  static int first_list(const Block& block) { return 1 + block.first / kStretch; }
  static int last_list(const Block& block) { return 1 + block.last / kStretch; }
  static bool is_short(const Block& block) {
    return !wraps(block) && last_list(block) - first_list(block) <= 1;
  }

  void insert(int index, std::vector<int>& list) {
    list.insert(std::upper_bound(list.begin(), list.end(), index, ByOffset{blocks_}), index);
  }

  // Those in the lists that are not alive together with the block do not matter.
  int64_t lowest_free(const Block& block,
                      const std::array<const std::vector<int>*, 3>& lists) const {
    std::array<size_t, 3> at{};
    int64_t offset = 0;
    while (true) {
      int next = -1;
      size_t from = 0;
      for (size_t l = 0; l < lists.size(); ++l) {
        while (at[l] < lists[l]->size() && !meet(block, blocks_[(*lists[l])[at[l]]])) ++at[l];
        if (at[l] == lists[l]->size()) continue;
        int other = (*lists[l])[at[l]];
        if (next >= 0 && blocks_[next].offset <= blocks_[other].offset) continue;
        next = other;
        from = l;
      }
      if (next < 0 || offset + block.bytes <= blocks_[next].offset) return offset;
      offset = std::max(offset, align_up(blocks_[next].offset + blocks_[next].bytes));
      ++at[from];
    }
  }

  std::span<const Block> blocks_;
  std::vector<std::vector<int>> lists_;  // the long-lived ones, then a list for each stretch
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
