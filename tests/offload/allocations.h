// An AllocationCount counts what the process takes from the heap by operator new, which this
// program replaces. Allocations of LibTorch are counted through c10.
#pragma once

#include <cstdint>

namespace longshore::offload {

struct Allocations {
  int64_t new_count = 0, new_bytes = 0, new_largest_bytes = 0;
  int64_t c10_count = 0, c10_bytes = 0;
};

// Counts from now on, on all threads; one at a time.
class AllocationCount {
 public:
  AllocationCount();
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  Allocations so_far() const;
};

}  // namespace longshore::offload
