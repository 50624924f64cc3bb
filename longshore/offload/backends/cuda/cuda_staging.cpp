#include "longshore/offload/backends/cuda/cuda_staging.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "longshore/base/cuda_check.h"

namespace longshore::offload {
namespace {

// Eight threads copy within the host about as fast as a link does.
constexpr size_t kBuffers = 8;
constexpr int64_t kBufferBytes = int64_t{2} << 20;

}  // namespace

// Borrows a buffer for the lifetime of this object.
class CudaStaging::Borrowed {
 public:
  explicit Borrowed(CudaStaging& staging) : staging_(staging), buffer_(staging.take()) {}
  ~Borrowed() { staging_.give_back(buffer_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  std::byte* memory() const { return buffer_.memory; }

  void copy(void* to, const void* from, int64_t bytes) const {
    check_cuda(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, buffer_.stream),
        "a copy");
    check_cuda(cudaStreamSynchronize(buffer_.stream), "a copy");
  }

 private:
  CudaStaging& staging_;
  Buffer buffer_;
};

CudaStaging::~CudaStaging() {
  for (const Buffer& buffer : idle_) {
    cudaStreamDestroy(buffer.stream);
    cudaFreeHost(buffer.memory);
  }
}

void CudaStaging::to_device(std::byte* to, const void* from, int64_t bytes) {
  const Borrowed buffer(*this);
  for (int64_t at = 0; at < bytes; at += kBufferBytes) {
    const int64_t size = std::min(kBufferBytes, bytes - at);
    std::memcpy(buffer.memory(), static_cast<const std::byte*>(from) + at,
                static_cast<size_t>(size));
    buffer.copy(to + at, buffer.memory(), size);
  }
}

void CudaStaging::to_host(void* to, const std::byte* from, int64_t bytes) {
  const Borrowed buffer(*this);
  for (int64_t at = 0; at < bytes; at += kBufferBytes) {
    const int64_t size = std::min(kBufferBytes, bytes - at);
    buffer.copy(buffer.memory(), from + at, size);
    std::memcpy(static_cast<std::byte*>(to) + at, buffer.memory(), static_cast<size_t>(size));
  }
}

CudaStaging::Buffer CudaStaging::take() {
  std::unique_lock lock(mutex_);
  if (idle_.empty() && made_ < kBuffers) {
    Buffer buffer;
    check_cuda(cudaStreamCreateWithFlags(&buffer.stream, cudaStreamNonBlocking), "making a stream");
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, kBufferBytes, cudaHostAllocDefault);
    if (status != cudaSuccess) cudaStreamDestroy(buffer.stream);
    check_cuda(status, "pinning memory for copies");
    buffer.memory = static_cast<std::byte*>(memory);
    ++made_;
    return buffer;
  }
  given_back_.wait(lock, [&] { return !idle_.empty(); });
  const Buffer buffer = idle_.back();
  idle_.pop_back();
  return buffer;
}

void CudaStaging::give_back(const Buffer& buffer) {
  {
    std::lock_guard lock(mutex_);
    idle_.push_back(buffer);
  }
  given_back_.notify_one();
}

}  // namespace longshore::offload
