#include "longshore/offload/plan/memory_planning.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "longshore/offload/memory/alignment.h"

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

// A part of the arena, [begin, end).
struct Extent {
  int64_t begin, end;
  int buffer = -1;  // whose it is; -1: that of several
};

// The union of extents, as disjoint ones in ascending order that do not touch.
class ExtentUnion {
 public:
  void add(const Extent& extent) {
    const auto first = std::ranges::lower_bound(extents_, extent.begin, {}, &Extent::end);
    if (first == extents_.end() || first->begin > extent.end) {
      extents_.insert(first, {extent.begin, extent.end});
      return;
    }
    if (first->begin <= extent.begin && extent.end <= first->end) return;
    const auto after =
        std::ranges::upper_bound(first, extents_.end(), extent.end, {}, &Extent::begin);
    first->begin = std::min(first->begin, extent.begin);
    first->end = std::max(std::prev(after)->end, extent.end);
    extents_.erase(first + 1, after);
  }

  void clear() { extents_.clear(); }
  const std::vector<Extent>& extents() const { return extents_; }

 private:
  std::vector<Extent> extents_;
};

// The buffers that have their offsets already. Time is divided into periods. In the first and the
// last period of its life a buffer lives for a part of the time, and in those between for all of
// it, so that there only the union of what is live matters. Periods in a row have a union together,
// for buffers that live through all of them.
class PlacedBuffers {
 public:
  explicit PlacedBuffers(std::span<const BufferLifetime> buffers)
      : buffers_(buffers),
        periods_(1 + end_of(buffers) / kPeriod),
        rows_(1 + periods_.size() / kRow) {}

  void add(int index) {
    const BufferLifetime& buffer = buffers_[index];
    const Extent extent{buffer.offset, align_up(buffer.offset + buffer.bytes), index};
    auto add_end = [&](int number) {
      Period& period = periods_[number];
      period.in_part.insert(
          std::ranges::upper_bound(period.in_part, extent.begin, {}, &Extent::begin), extent);
      period.at_any_time.add(extent);
      rows_[number / kRow].add(extent);
    };
    add_end(first_period(buffer));
    if (last_period(buffer) != first_period(buffer)) add_end(last_period(buffer));
    each_between(buffer, [&](int begin, int end) {
      for (int number = begin; number < end; ++number) {
        periods_[number].throughout.add(extent);
        periods_[number].at_any_time.add(extent);
        if (number == begin || number % kRow == 0) rows_[number / kRow].add(extent);
      }
    });
  }

  // The lowest offset that is free throughout the buffer's life.
  int64_t lowest_free(int index) {
    const BufferLifetime& buffer = buffers_[index];
    const Period &first = periods_[first_period(buffer)], &last = periods_[last_period(buffer)];
    between_.clear();
    each_between(buffer, [&](int begin, int end) {
      for (int number = begin; number < end;) {
        const bool is_row = number % kRow == 0 && number + kRow <= end;
        const ExtentUnion& live = is_row ? rows_[number / kRow] : periods_[number].at_any_time;
        for (const Extent& extent : live.extents()) between_.add(extent);
        number += is_row ? kRow : 1;
      }
    });
    std::array<std::span<const Extent>, 5> lists{first.in_part, first.throughout.extents(),
                                                 between_.extents()};
    if (&last != &first) {
      lists[3] = last.in_part;
      lists[4] = last.throughout.extents();
    }
    return lowest_free(buffer, lists);
  }

 private:
  static constexpr int kPeriod = 64;  // instructions
  static constexpr int kRow = 16;     // periods

  struct Period {
    std::vector<Extent> in_part;  // of the buffers whose lives begin or end here, by their begins
    ExtentUnion throughout;       // of those whose lives begin before and end after
    ExtentUnion at_any_time;      // of all
  };

  static int first_period(const BufferLifetime& buffer) { return buffer.first / kPeriod; }
  static int last_period(const BufferLifetime& buffer) { return buffer.last / kPeriod; }

  // Calls `f` with the periods [begin, end) between those in which its life begins and ends: once,
  // or twice where it wraps.
  template <class F>
  void each_between(const BufferLifetime& buffer, const F& f) {
    const int first = first_period(buffer), last = last_period(buffer);
    f(first + 1, wraps(buffer) ? static_cast<int>(periods_.size()) : last);
    if (wraps(buffer)) f(0, std::min(first, last));
  }

  // The lists, each in ascending order, are merged. Buffers in them that are never live together
  // with `buffer` do not matter.
  int64_t lowest_free(const BufferLifetime& buffer,
                      std::array<std::span<const Extent>, 5>& lists) const {
    int64_t offset = 0;
    while (true) {
      std::span<const Extent>* next = nullptr;
      for (std::span<const Extent>& list : lists)
        if (!list.empty() && (!next || list.front().begin < next->front().begin)) next = &list;
      if (!next || offset + buffer.bytes <= next->front().begin) return offset;
      const Extent& extent = next->front();
      if (extent.end > offset && (extent.buffer < 0 || interfere(buffer, buffers_[extent.buffer])))
        offset = extent.end;
      *next = next->subspan(1);
    }
  }

  std::span<const BufferLifetime> buffers_;
  std::vector<Period> periods_;
  std::vector<ExtentUnion> rows_;  // at any time of kRow periods
  ExtentUnion between_;
};

// Puts each buffer, in that order, at the lowest offset that is free throughout its life; returns
// the arena's size. Stops once it is known to be at least `enough`, and then returns that.
int64_t assign_offsets_in_order(std::span<BufferLifetime> buffers, const std::vector<int>& order,
                                int64_t enough) {
  PlacedBuffers placed(buffers);
  int64_t size = 0;
  for (int index : order) {
    const BufferLifetime& buffer = buffers[index];
    if (!buffer.is_fixed) continue;
    size = std::max(size, align_up(buffer.offset + buffer.bytes));
    placed.add(index);
  }
  for (int index : order) {
    if (size >= enough) return enough;
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
  std::vector<int64_t> change(static_cast<size_t>(end_of(buffers)) + 1);
  for (const BufferLifetime& buffer : buffers) {
    change[buffer.first] += align_up(buffer.bytes);
    change[buffer.last + 1] -= align_up(buffer.bytes);
    if (wraps(buffer)) change[0] += align_up(buffer.bytes);
  }
  int64_t live = 0, most = 0;
  for (const int64_t bytes : change) most = std::max(most, live += bytes);
  return most;
}

double area(const BufferLifetime& buffer, int end) {
  int life = buffer.last - buffer.first + 1 + (wraps(buffer) ? end : 0);
  return static_cast<double>(buffer.bytes) * life;
}

}  // namespace

int64_t assign_offsets(std::span<BufferLifetime> buffers) {
  if (buffers.empty()) return 0;
  const int64_t bound = most_live(buffers);
  int64_t best = std::numeric_limits<int64_t>::max();
  std::vector<BufferLifetime> attempt(buffers.begin(), buffers.end());
  // The buffers with the least keys come first.
  auto try_order = [&](const auto& key) {
    if (best == bound) return;
    std::vector<std::pair<decltype(key(attempt[0])), int>> keyed;
    for (const BufferLifetime& buffer : buffers)
      keyed.emplace_back(key(buffer), static_cast<int>(keyed.size()));
    std::ranges::sort(keyed);
    std::vector<int> order;
    for (const auto& [_, index] : keyed) order.push_back(index);
    const int64_t size = assign_offsets_in_order(attempt, order, best);
    if (size >= best) return;
    best = size;
    std::ranges::copy(attempt, buffers.begin());
  };
  try_order([end = end_of(buffers)](const BufferLifetime& b) { return -area(b, end); });
  try_order([](const BufferLifetime& b) { return b.first; });
  try_order([](const BufferLifetime& b) { return -b.bytes; });
  return best;
}

}  // namespace longshore::offload
