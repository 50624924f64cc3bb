// CudaTimings measures when lanes of a GPU are busy, by events around what is enqueued in their
// streams.
#pragma once

#include <driver_types.h>

#include <vector>

#include "longshore/offload/backends/backend.h"

namespace longshore::offload {

class CudaTimings {
 public:
  CudaTimings() = default;
  ~CudaTimings();
  CudaTimings(const CudaTimings&) = delete;
  CudaTimings& operator=(const CudaTimings&) = delete;

  // Spans count from when that stream comes to this call.
  void start(cudaStream_t stream);
  // The spans since start(), whose work must have ended. Throws Error with CUDA's message.
  LaneSpans stop();

  // Times what is enqueued in the lane's stream during its lifetime, between start() and stop().
  class Call {
   public:
    Call(CudaTimings& timings, Lane lane, cudaStream_t stream);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CudaTimings& timings_;
    Lane lane_;
    cudaStream_t stream_;
    cudaEvent_t begin_ = nullptr;
  };

 private:
  struct Events {
    cudaEvent_t begin = nullptr, end = nullptr;
  };

  static void destroy(const Events& events);

  cudaEvent_t since_ = nullptr;  // null where nothing is timed
  PerLane<std::vector<Events>> lanes_;
};

}  // namespace longshore::offload
