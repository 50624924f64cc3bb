#include "longshore/offload/plan/memory_planning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "longshore/offload/memory/alignment.h"

namespace longshore::offload {
namespace {

bool is_live(const BufferLifetime& buffer, int now) {
  const bool begun = buffer.first <= now, ended = buffer.last < now;
  return buffer.first <= buffer.last ? begun && !ended : begun || !ended;
}

bool live_together(const BufferLifetime& a, const BufferLifetime& b) {
  return is_live(a, b.first) || is_live(b, a.first);
}

// Every buffer rounded up to whole places, summed at the fullest time.
int64_t bound(const std::vector<BufferLifetime>& buffers) {
  int64_t most = 0;
  for (const BufferLifetime& at : buffers) {
    int64_t now = 0;
    for (const BufferLifetime& other : buffers)
      if (is_live(other, at.first)) now += align_up(other.bytes);
    most = std::max(most, now);
  }
  return most;
}

void expect_sound(const std::vector<BufferLifetime>& buffers, int64_t size) {
  EXPECT_GE(size, bound(buffers));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferLifetime& a = buffers[i];
    EXPECT_GE(a.offset, 0);
    EXPECT_EQ(a.offset % kArenaAlignment, 0);
    EXPECT_LE(a.offset + a.bytes, size);
    for (size_t j = 0; j < i; ++j) {
      const BufferLifetime& b = buffers[j];
      bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(overlap && live_together(a, b)) << i << " and " << j;
    }
  }
}

TEST(MemoryPlanning, NothingLiveTogetherOverlaps) {
  std::mt19937 random(1);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  double worst = 1;
  for (int round = 0; round < 300; ++round) {
    std::vector<BufferLifetime> buffers(1 + below(40));
    int end = 2 + below(round % 2 ? 60 : 1000);
    for (BufferLifetime& buffer : buffers) {
      buffer.first = below(end);
      buffer.last = std::min(end, buffer.first + below(1 + end / 2));
      // Some live across the end of a run.
      if (buffer.first < buffer.last && below(5) == 0) std::swap(buffer.first, buffer.last);
      // Many of few sizes, as plans have them, and some odd ones.
      buffer.bytes = below(3) ? (1 + below(4)) * 4096 : below(20000);
    }
    int64_t size = assign_offsets(buffers);
    expect_sound(buffers, size);
    if (int64_t least = bound(buffers)) worst = std::max(worst, double(size) / double(least));

    // Where some must stay where they are, the others find places beside them.
    std::vector<BufferLifetime> some_fixed = buffers;
    for (BufferLifetime& buffer : some_fixed) buffer.is_fixed = below(4) == 0;
    size = assign_offsets(some_fixed);
    expect_sound(some_fixed, size);
    for (size_t i = 0; i < buffers.size(); ++i)
      EXPECT_TRUE(!some_fixed[i].is_fixed || some_fixed[i].offset == buffers[i].offset);
  }
  RecordProperty("worst_over_bound", std::to_string(worst));
}

// The arena's size with the buffers in that order, each at the lowest offset that is free, as
// comparing each with all finds it.
int64_t place_in_order(std::vector<BufferLifetime>& buffers, const std::vector<int>& order) {
  int64_t size = 0;
  std::vector<const BufferLifetime*> placed;
  for (int index : order) {
    BufferLifetime& buffer = buffers[index];
    std::ranges::sort(placed, {}, &BufferLifetime::offset);
    buffer.offset = 0;
    for (const BufferLifetime* other : placed) {
      if (!live_together(buffer, *other)) continue;
      if (buffer.offset + buffer.bytes <= other->offset) break;
      buffer.offset = std::max(buffer.offset, align_up(other->offset + other->bytes));
    }
    placed.push_back(&buffer);
    size = std::max(size, align_up(buffer.offset + buffer.bytes));
  }
  return size;
}

TEST(MemoryPlanning, PlacesAreThoseOfTheFirstOrderWithTheSmallestArena) {
  std::mt19937 random(2);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 60; ++round) {
    // Lives within one of the stretches into which time may be cut, and across many of them.
    std::vector<BufferLifetime> buffers(1 + below(150));
    const int end = 2 + below(2000);
    for (BufferLifetime& buffer : buffers) {
      buffer.first = below(end);
      buffer.last = std::min(end, buffer.first + below(below(3) ? 30 : end));
      if (buffer.first < buffer.last && below(8) == 0) std::swap(buffer.first, buffer.last);
      buffer.bytes = below(3) ? (1 + below(4)) * 4096 : 1 + below(20000);
    }
    int after = 0;  // the first instruction after all lives
    for (const BufferLifetime& b : buffers) after = std::max({after, b.first + 1, b.last + 1});
    auto area_of = [&](int i) {
      const BufferLifetime& b = buffers[i];
      const int life = b.last - b.first + 1 + (b.first > b.last ? after : 0);
      return static_cast<double>(b.bytes) * life;
    };
    std::vector<int> by_area(buffers.size());
    for (size_t i = 0; i < by_area.size(); ++i) by_area[i] = static_cast<int>(i);
    std::vector<int> by_birth = by_area, by_bytes = by_area;
    std::ranges::stable_sort(by_area, std::greater{}, area_of);
    std::ranges::stable_sort(by_birth, {}, [&](int i) { return buffers[i].first; });
    std::ranges::stable_sort(by_bytes, std::greater{}, [&](int i) { return buffers[i].bytes; });
    std::vector<BufferLifetime> best;
    int64_t least = INT64_MAX;
    for (const std::vector<int>& order : {by_area, by_birth, by_bytes}) {
      std::vector<BufferLifetime> attempt = buffers;
      if (const int64_t size = place_in_order(attempt, order); size < least) {
        least = size;
        best = attempt;
      }
    }
    ASSERT_EQ(assign_offsets(buffers), least);
    for (size_t i = 0; i < buffers.size(); ++i) EXPECT_EQ(buffers[i].offset, best[i].offset) << i;
  }
}

TEST(MemoryPlanning, NestedLifetimesTakeNoMoreThanTheBound) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    int depth = 1 + static_cast<int>(random() % 30);
    std::vector<BufferLifetime> buffers;
    // The outermost is the largest, as with layers that keep and the work within them.
    for (int i = 0; i < depth; ++i)
      buffers.push_back({.bytes = int64_t{1000} * (depth - i) + static_cast<int>(random() % 900),
                         .first = i,
                         .last = 2 * depth - i});
    int64_t least = bound(buffers);
    std::shuffle(buffers.begin(), buffers.end(), random);
    int64_t size = assign_offsets(buffers);
    expect_sound(buffers, size);
    EXPECT_EQ(size, least);
  }
}

TEST(MemoryPlanning, BuffersOneAfterTheOtherShareAPlace) {
  std::vector<BufferLifetime> buffers;
  for (int i = 0; i < 100; ++i) buffers.push_back({.bytes = 5000, .first = i, .last = i});
  EXPECT_EQ(assign_offsets(buffers), align_up(5000));
  buffers.push_back({.bytes = 1, .first = 0, .last = 99});
  EXPECT_EQ(assign_offsets(buffers), align_up(5000) + kArenaAlignment);
}

TEST(MemoryPlanning, NoBuffersTakeNoMemory) {
  EXPECT_EQ(assign_offsets({}), 0);
  std::vector<BufferLifetime> empty{{.bytes = 0, .first = 0, .last = 3}};
  EXPECT_EQ(assign_offsets(empty), 0);
}

}  // namespace
}  // namespace longshore::offload
