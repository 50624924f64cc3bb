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

// Whether it lives across the end of a run.
bool wraps(const BufferLifetime& buffer) { return buffer.first > buffer.last; }

// Whether there is a time at which both are live.
bool interfere(const BufferLifetime& a, const BufferLifetime& b) {
  if (wraps(a) && wraps(b)) return true;
  if (wraps(a) || wraps(b)) return a.last >= b.first || b.last >= a.first;
  return a.last >= b.first && b.last >= a.first;
}

// The first instruction after the lives of all buffers.
int end_of(std::span<const BufferLifetime> buffers) {
  int end = 0;
  for (const BufferLifetime& buffer : buffers)
    end = std::max({end, buffer.first + 1, buffer.last + 1});
  return end;
}

// The buffers that have their offsets already, in lists that are sorted by offset. Time is divided
// into periods. A buffer that lives in one period or in two neighbouring ones is in the lists of
// these periods; all longer-lived ones are in one list of their own.
class PlacedBuffers {
 public:
  explicit PlacedBuffers(std::span<const BufferLifetime> buffers)
      : buffers_(buffers), seen_(buffers.size(), -1) {
    lists_.resize(1 + end_of(buffers) / kPeriod + 1);
  }

  void add(int index) {
    const BufferLifetime& buffer = buffers_[index];
    if (!is_short(buffer)) return insert(index, lists_[0]);
    for (int s = first_list(buffer); s <= last_list(buffer); ++s) insert(index, lists_[s]);
  }

  // The lowest offset that is free throughout the buffer's life.
  int64_t lowest_free(int index) {
    const BufferLifetime& buffer = buffers_[index];
    static const std::vector<int> kNone;
    if (is_short(buffer)) {
      const std::vector<int>& first = lists_[first_list(buffer)];
      bool has_second = last_list(buffer) > first_list(buffer);
      return lowest_free(buffer,
                         {&lists_[0], &first, has_second ? &lists_[last_list(buffer)] : &kNone});
    }
    found_.clear();
    auto find = [&](int first, int last) {
      for (int s = first; s <= last; ++s)
        for (int other : lists_[s])
          if (seen_[other] != index && interfere(buffer, buffers_[other])) {
            seen_[other] = index;
            found_.push_back(other);
          }
    };
    int end = static_cast<int>(lists_.size()) - 1;
    find(first_list(buffer), wraps(buffer) ? end : last_list(buffer));
    if (wraps(buffer)) find(1, last_list(buffer));
    std::sort(found_.begin(), found_.end(), ByOffset{buffers_});
    return lowest_free(buffer, {&lists_[0], &found_, &kNone});
  }

 private:
  static constexpr int kPeriod = 128;  // instructions

  struct ByOffset {
    std::span<const BufferLifetime> buffers;
    bool operator()(int a, int b) const { return buffers[a].offset < buffers[b].offset; }
  };

  static int first_list(const BufferLifetime& buffer) { return 1 + buffer.first / kPeriod; }
  static int last_list(const BufferLifetime& buffer) { return 1 + buffer.last / kPeriod; }
  static bool is_short(const BufferLifetime& buffer) {
    return !wraps(buffer) && last_list(buffer) - first_list(buffer) <= 1;
  }

  void insert(int index, std::vector<int>& list) {
    list.insert(std::upper_bound(list.begin(), list.end(), index, ByOffset{buffers_}), index);
  }

  // The lists are merged by offset. Buffers in them that are never live together with `buffer` do
  // not matter.
  int64_t lowest_free(const BufferLifetime& buffer,
                      const std::array<const std::vector<int>*, 3>& lists) const {
    std::array<size_t, 3> at{};
    int64_t offset = 0;
    while (true) {
      int next = -1;
      size_t from = 0;
      for (size_t l = 0; l < lists.size(); ++l) {
        while (at[l] < lists[l]->size() && !interfere(buffer, buffers_[(*lists[l])[at[l]]]))
          ++at[l];
        if (at[l] == lists[l]->size()) continue;
        int other = (*lists[l])[at[l]];
        if (next >= 0 && buffers_[next].offset <= buffers_[other].offset) continue;
        next = other;
        from = l;
      }
      if (next < 0 || offset + buffer.bytes <= buffers_[next].offset) return offset;
      offset = std::max(offset, align_up(buffers_[next].offset + buffers_[next].bytes));
      ++at[from];
    }
  }

  std::span<const BufferLifetime> buffers_;
  std::vector<std::vector<int>> lists_;  // the long-lived buffers, then a list for each period
  std::vector<int> seen_, found_;
};

// Puts each buffer, in that order, at the lowest offset that is free throughout its life; returns
// the arena's size.
int64_t assign_offsets_in_order(std::span<BufferLifetime> buffers, const std::vector<int>& order) {
  PlacedBuffers placed(buffers);
  int64_t size = 0;
  for (int index : order) {
    const BufferLifetime& buffer = buffers[index];
    if (!buffer.is_fixed) continue;
    size = std::max(size, align_up(buffer.offset + buffer.bytes));
    placed.add(index);
  }
  for (int index : order) {
    BufferLifetime& buffer = buffers[index];
    if (buffer.is_fixed) continue;
    buffer.offset = placed.lowest_free(index);
    size = std::max(size, align_up(buffer.offset + buffer.bytes));
    placed.add(index);
  }
  return size;
}

// The most bytes that are live at one time. No arena can be smaller.
int64_t most_live(std::span<const BufferLifetime> buffers) {
  std::map<int, int64_t> change;
  for (const BufferLifetime& buffer : buffers) {
    change[buffer.first] += align_up(buffer.bytes);
    change[buffer.last + 1] -= align_up(buffer.bytes);
    if (wraps(buffer)) change[0] += align_up(buffer.bytes);
  }
  int64_t live = 0, most = 0;
  for (const auto& [time, bytes] : change) most = std::max(most, live += bytes);
  return most;
}

double area(const BufferLifetime& buffer, int end) {
  int life = buffer.last - buffer.first + 1 + (wraps(buffer) ? end : 0);
  return static_cast<double>(buffer.bytes) * life;
}

}  // namespace

int64_t assign_offsets(std::span<BufferLifetime> buffers) {
  if (buffers.empty()) return 0;
  using Before = std::function<bool(const BufferLifetime&, const BufferLifetime&)>;
  const Before kOrders[] = {
      [end = end_of(buffers)](const BufferLifetime& a, const BufferLifetime& b) {
        return area(a, end) > area(b, end);
      },
      [](const BufferLifetime& a, const BufferLifetime& b) { return a.first < b.first; },
      [](const BufferLifetime& a, const BufferLifetime& b) { return a.bytes > b.bytes; },
  };
  int64_t bound = most_live(buffers), best = std::numeric_limits<int64_t>::max();
  std::vector<BufferLifetime> attempt(buffers.begin(), buffers.end());
  for (const Before& before : kOrders) {
    std::vector<int> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return before(buffers[a], buffers[b]); });
    int64_t size = assign_offsets_in_order(attempt, order);
    if (size < best) {
      best = size;
      std::copy(attempt.begin(), attempt.end(), buffers.begin());
    }
    if (best == bound) break;
  }
  return best;
}

}  // namespace longshore::offload
