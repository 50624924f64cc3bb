#include "longshore/offload/hardware/processor_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace longshore::offload {
namespace {

const std::byte* address(int64_t at) { return reinterpret_cast<const std::byte*>(4096 + at); }

TEST(ProcessorCache, HoldsWhatWasUsedLast) {
  ProcessorCache cache(100);
  EXPECT_EQ(cache.use(address(0), 60), 60);
  EXPECT_EQ(cache.use(address(0), 60), 0);
  EXPECT_EQ(cache.use(address(30), 60), 30);   // half of it is there
  EXPECT_EQ(cache.use(address(200), 20), 20);  // 0 to 10 give way
  EXPECT_EQ(cache.use(address(0), 30), 10);
  EXPECT_EQ(cache.use(address(0), 0), 0);
}

TEST(ProcessorCache, HoldsTheEndOfWhatIsLarger) {
  ProcessorCache cache(100);
  EXPECT_EQ(cache.use(address(0), 1000), 1000);
  EXPECT_EQ(cache.use(address(900), 100), 0);
  EXPECT_EQ(cache.use(address(0), 1000), 900);
  ProcessorCache none(0);
  EXPECT_EQ(none.use(address(0), 10), 10);
  EXPECT_EQ(none.use(address(0), 10), 10);
}

// Byte by byte, with the time of each one's last use. Within a use, later bytes count as later.
TEST(ProcessorCache, IsTheSameAsByteByByte) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t capacity = 1 + static_cast<int64_t>(random() % 300);
    constexpr int64_t kMemory = 500;
    ProcessorCache cache(capacity);
    std::vector<int64_t> used_at(kMemory, -1);
    int64_t now = 0;
    for (int use = 0; use < 50; ++use) {
      const int64_t begin = static_cast<int64_t>(random() % kMemory),
                    bytes = static_cast<int64_t>(random() % (kMemory - begin));
      std::vector<int64_t> times = used_at;
      std::ranges::sort(times, std::greater());
      const int64_t oldest = capacity <= kMemory ? times[capacity - 1] : -1;
      int64_t missing = 0;
      for (int64_t i = begin; i < begin + bytes; ++i)
        missing += used_at[i] < 0 || used_at[i] < oldest;
      for (int64_t i = begin; i < begin + bytes; ++i) used_at[i] = now++;
      ASSERT_EQ(cache.use(address(begin), bytes), missing) << trial << " " << use;
    }
  }
}

}  // namespace
}  // namespace longshore::offload
