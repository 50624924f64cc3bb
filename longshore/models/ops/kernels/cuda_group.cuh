// The threads of a GPU as longshore/models/ops/kernels/thread_group.h describes groups, and
// launches of them. nvcc alone sees this header.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "longshore/base/error.h"
#include "longshore/models/ops/kernels/thread_group.h"

namespace longshore::models {

// shuffle() for values of any trivially copyable type, word by word.
template <class T, class Shuffle>
__device__ T shuffled(const T& value, Shuffle shuffle) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  constexpr int kWords = sizeof(T) / sizeof(uint32_t);
  uint32_t words[kWords];
  memcpy(words, &value, sizeof(T));
  for (int i = 0; i < kWords; ++i) words[i] = shuffle(words[i]);
  T result;
  memcpy(&result, words, sizeof(T));
  return result;
}

// A variable that each thread has of its own: the number says which thread.
template <class T>
struct CudaOwn {
  T value;
  __device__ T& operator[](int64_t) { return value; }
};

// kLanes threads that follow each other in one warp.
template <int kLanes>
class CudaLanes {
  static_assert(kLanes > 0 && kLanes <= 32 && 32 % kLanes == 0);

 public:
  static __device__ int threads() { return kLanes; }

  template <class F>
  __device__ void for_each(int64_t count, F f) const {
    for (int64_t i = lane(); i < count; i += kLanes) f(i);
  }

  template <class T, class Add, class Combine>
  __device__ T reduce(int64_t count, T start, Add add, Combine combine) const {
    T value = start;
    for (int64_t i = lane(); i < count; i += kLanes) add(value, i);
    join(value, combine);
    return shuffled(value, [](uint32_t w) { return __shfl_sync(mask(), w, 0, kLanes); });
  }

  // The values of all lanes in lane 0's.
  template <class T, class Combine>
  static __device__ void join(T& value, Combine combine) {
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      combine(value, shuffled(value, [&](uint32_t w) {
                return __shfl_down_sync(mask(), w, distance, kLanes);
              }));
  }

  template <class F>
  __device__ void once(F f) const {
    if (lane() == 0) f();
  }

  __device__ void sync() const { __syncwarp(mask()); }

  template <class T>
  __device__ CudaOwn<T> own() const {
    return {};
  }

 private:
  static __device__ int lane() { return threadIdx.x % kLanes; }
  static __device__ uint32_t mask() {
    return (0xffffffffu >> (32 - kLanes)) << (threadIdx.x % 32 / kLanes * kLanes);
  }
};

// All threads of a block, kThreads of them.
template <int kThreads>
class CudaBlock {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);

 public:
  static __device__ int threads() { return kThreads; }

  template <class F>
  __device__ void for_each(int64_t count, F f) const {
    for (int64_t i = threadIdx.x; i < count; i += kThreads) f(i);
  }

  template <class T, class Add, class Combine>
  __device__ T reduce(int64_t count, T start, Add add, Combine combine) {
    T value = start;
    for (int64_t i = threadIdx.x; i < count; i += kThreads) add(value, i);
    CudaLanes<32>::join(value, combine);
    // A warp that is here again before others have read writes to the other row; it cannot come a
    // third time before they have.
    constexpr int kWarps = kThreads / 32;
    __shared__ alignas(16) unsigned char room[2][kWarps * sizeof(T)];
    T* values = reinterpret_cast<T*>(room[turn_]);
    turn_ ^= 1;
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value;
    __syncthreads();
    value = values[0];
    for (int warp = 1; warp < kWarps; ++warp) combine(value, values[warp]);
    return value;
  }

  template <class F>
  __device__ void once(F f) const {
    if (threadIdx.x == 0) f();
  }

  __device__ void sync() const { __syncthreads(); }

  template <int kLanes, class F>
  __device__ void split(F f) const {
    CudaLanes<kLanes> part;
    f(part, static_cast<int>(threadIdx.x) / kLanes);
  }

  template <class T>
  __device__ T* scratch() const {
    extern __shared__ uint4 longshore_scratch[];  // aligned to 16 bytes
    return reinterpret_cast<T*>(longshore_scratch);
  }

  template <class T>
  __device__ CudaOwn<T> own() const {
    return {};
  }

 private:
  int turn_ = 0;
};

template <class Body>
__global__ void __launch_bounds__(Body::kThreads) run_block(const Body body) {
  CudaBlock<Body::kThreads> block;
  body(block, static_cast<int64_t>(blockIdx.x));
}

// Launches into a stream. `op` is named in errors, which it throws as Error.
class CudaLauncher {
 public:
  CudaLauncher(void* stream, const char* op)
      : stream_(static_cast<cudaStream_t>(stream)), op_(op) {}

  template <class Body>
  static constexpr int threads() {
    return Body::kThreads;
  }

  template <class Body>
  void operator()(const Body& body, int64_t blocks, int64_t scratch_bytes = 0) const {
    if (blocks == 0) return;
    run_block<<<static_cast<unsigned>(blocks), Body::kThreads, static_cast<size_t>(scratch_bytes),
                stream_>>>(body);
    check(cudaGetLastError());
  }

  void zero(void* to, int64_t bytes) const {
    check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream_));
  }

  void copy(void* to, const void* from, int64_t bytes) const {
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream_));
  }

 private:
  void check(cudaError_t status) const {
    if (status != cudaSuccess)
      throw Error(std::string(op_) + " on CUDA: " + cudaGetErrorString(status));
  }

  cudaStream_t stream_;
  const char* op_;
};

}  // namespace longshore::models
