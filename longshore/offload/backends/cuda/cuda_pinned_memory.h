// Pinned host memory, which a GPU's copies reach directly, on the host's memory node of that GPU.
//
// cudaHostAlloc makes, clears and pins page after page on one thread. Here all threads touch pages
// as large as the system gives them, and the pages are then registered with the driver.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <map>

namespace longshore::offload {

class CudaPinnedMemory {
 public:
  explicit CudaPinnedMemory(int device);

  // The contents are undefined. Returns null, with the reason in `status`, where memory cannot be
  // had.
  std::byte* allocate(int64_t bytes, cudaError_t& status);
  void free(std::byte* memory);

 private:
  int memory_node_ = -1;  // the number that the system gives it; -1 where it is unknown
  std::map<std::byte*, int64_t> mapped_bytes_;
};

}  // namespace longshore::offload
