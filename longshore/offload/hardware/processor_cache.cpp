#include "longshore/offload/hardware/processor_cache.h"

#include <algorithm>

namespace longshore::offload {

int64_t ProcessorCache::take_out(Range used) {
  std::deque<Range> left;
  int64_t found = 0;
  for (const Range& range : ranges_) {
    const std::byte *begin = std::max(range.begin, used.begin),
                    *end = std::min(range.end, used.end);
    if (begin >= end) {
      left.push_back(range);
      continue;
    }
    found += end - begin;
    if (range.begin < begin) left.push_back({range.begin, begin});
    if (end < range.end) left.push_back({end, range.end});
  }
  ranges_ = std::move(left);
  held_ -= found;
  return found;
}

int64_t ProcessorCache::use(const std::byte* begin, int64_t bytes) {
  if (bytes == 0) return 0;
  const int64_t fetched = bytes - take_out({begin, begin + bytes});
  const Range kept{begin + bytes - std::min(bytes, capacity_), begin + bytes};
  ranges_.push_back(kept);
  held_ += kept.bytes();
  for (; held_ > capacity_; ranges_.pop_front()) {
    Range& oldest = ranges_.front();
    const int64_t over = held_ - capacity_;
    if (over < oldest.bytes()) {
      oldest.begin += over;
      held_ -= over;
      break;
    }
    held_ -= oldest.bytes();
  }
  return fetched;
}

}  // namespace longshore::offload
