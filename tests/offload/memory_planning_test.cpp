#include "offload/memory_planning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "offload/alignment.h"

namespace longshore::offload {
namespace {

bool alive_together(const Block& a, const Block& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Every block rounded up to whole places, summed at the fullest time.
int64_t bound(const std::vector<Block>& blocks) {
  int64_t most = 0;
  for (const Block& at : blocks) {
    int64_t now = 0;
    for (const Block& other : blocks)
      if (other.first <= at.first && at.first <= other.last) now += align_up(other.bytes);
    most = std::max(most, now);
  }
  return most;
}

void expect_sound(const std::vector<Block>& blocks, int64_t size) {
  EXPECT_GE(size, bound(blocks));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& a = blocks[i];
    EXPECT_GE(a.offset, 0);
    EXPECT_EQ(a.offset % kArenaAlignment, 0);
    EXPECT_LE(a.offset + a.bytes, size);
    for (size_t j = 0; j < i; ++j) {
      const Block& b = blocks[j];
      bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(overlap && alive_together(a, b)) << i << " and " << j;
    }
  }
}

TEST(MemoryPlanning, NothingAliveTogetherOverlaps) {
  std::mt19937 random(1);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  double worst = 1;
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks(1 + below(40));
    int end = 1 + below(60);
    for (Block& block : blocks) {
      block.first = below(end);
      block.last = std::min(end, block.first + below(1 + end / 2));
      // Many of few sizes, as plans have them, and some odd ones.
      block.bytes = below(3) ? (1 + below(4)) * 4096 : below(20000);
    }
    int64_t size = place(blocks);
    expect_sound(blocks, size);
    if (int64_t least = bound(blocks)) worst = std::max(worst, double(size) / double(least));
  }
  RecordProperty("worst_over_bound", std::to_string(worst));
}

TEST(MemoryPlanning, NestedLifetimesTakeNoMoreThanTheBound) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    int depth = 1 + static_cast<int>(random() % 30);
    std::vector<Block> blocks;
    // The outermost is the largest, as with layers that keep and the work within them.
    for (int i = 0; i < depth; ++i)
      blocks.push_back({.bytes = int64_t{1000} * (depth - i) + static_cast<int>(random() % 900),
                        .first = i,
                        .last = 2 * depth - i});
    int64_t least = bound(blocks);
    std::shuffle(blocks.begin(), blocks.end(), random);
    int64_t size = place(blocks);
    expect_sound(blocks, size);
    EXPECT_EQ(size, least);
  }
}

TEST(MemoryPlanning, BlocksOneAfterTheOtherShareAPlace) {
  std::vector<Block> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back({.bytes = 5000, .first = i, .last = i});
  EXPECT_EQ(place(blocks), align_up(5000));
  blocks.push_back({.bytes = 1, .first = 0, .last = 99});
  EXPECT_EQ(place(blocks), align_up(5000) + kArenaAlignment);
}

TEST(MemoryPlanning, NoBlocksTakeNoMemory) {
  EXPECT_EQ(place({}), 0);
  std::vector<Block> empty{{.bytes = 0, .first = 0, .last = 3}};
  EXPECT_EQ(place(empty), 0);
}

}  // namespace
}  // namespace longshore::offload
