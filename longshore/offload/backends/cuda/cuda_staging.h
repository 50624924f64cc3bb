// Copies between a GPU's memory and memory that is not pinned, by any number of threads at once.
//
// The driver makes its own copies of this kind one after the other. Here each copy uses a small
// pinned buffer and a stream of its own, so that one thread copies within the host while another
// one's bytes travel over the link.
#pragma once

#include <driver_types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace longshore::offload {

// Takes 2 MiB of pinned memory for each thread that copies at the same time, and at most 16 MiB.
class CudaStaging {
 public:
  CudaStaging() = default;
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  // Return when the bytes have arrived. The copies are not ordered with other streams. The device
  // must be the calling thread's current one. Throw Error with CUDA's message.
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
