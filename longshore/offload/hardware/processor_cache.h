// A model of a processor's cache: it holds the memory that was used last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace longshore::offload {

class ProcessorCache {
 public:
  explicit ProcessorCache(int64_t capacity) : capacity_(capacity) {}

  // Uses `bytes` of memory from `begin` on; returns how many of them were not in the cache.
  int64_t use(const std::byte* begin, int64_t bytes);

 private:
  struct Range {
    const std::byte *begin, *end;
    int64_t bytes() const { return end - begin; }
  };

  // Removes the bytes of `used` that are in the cache; returns how many they are.
  int64_t take_out(Range used);

  int64_t capacity_;
  int64_t held_ = 0;          // bytes of ranges_
  std::deque<Range> ranges_;  // disjoint; the most recently used is the last
};

}  // namespace longshore::offload
