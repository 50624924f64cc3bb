// Copies between a GPU's memory and memory that is not pinned, by any number of threads at once.
//
// The driver lets such copies of its own take turns. Here each passes through a small pinned buffer
// and on a stream of its own, so that one thread's copy within the host hides another's over the
// link.
#pragma once

#include <driver_types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace longshore::offload {

// At most 16 MiB of pinned memory; a program that copies with one thread has 2 MiB.
class CudaStaging {
 public:
  CudaStaging() = default;
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  // Back when the bytes have arrived. They are not ordered with other streams. The device must be
  // the calling thread's current one. Throw Error with what CUDA says.
  void to_device(std::byte* to, const void* from, int64_t bytes);
  void to_host(void* to, const std::byte* from, int64_t bytes);

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    cudaStream_t stream = nullptr;
  };
  class Borrowed;

  Buffer take();
  void give_back(const Buffer& buffer);

  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<Buffer> idle_;
  size_t made_ = 0;
};

}  // namespace longshore::offload
