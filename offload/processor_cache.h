// Which memory a processor has at hand: what was used last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace longshore::offload {

class ProcessorCache {
 public:
  explicit ProcessorCache(int64_t capacity) : capacity_(capacity) {}

  // Uses `bytes` of memory from `begin` on; says how many of them were not at hand.
  int64_t use(const std::byte* begin, int64_t bytes);

 private:
  struct Range {
    const std::byte *begin, *end;
    int64_t bytes() const { return end - begin; }
  };

  int64_t take_out(Range used);

  int64_t capacity_;
  int64_t held_ = 0;          // bytes of ranges_
  std::deque<Range> ranges_;  // disjoint, the latest used last
};

}  // namespace longshore::offload
