#include "longshore/offload/backends/cuda/cuda_timings.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "longshore/base/cuda_check.h"

namespace longshore::offload {
namespace {

// A failure here is reported when the times are read.
cudaEvent_t mark(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEventRecord(event, stream);
  return event;
}

}  // namespace

CudaTimings::~CudaTimings() {
  for (const std::vector<Events>& lane : lanes_)
    for (const Events& events : lane) destroy(events);
  if (since_) cudaEventDestroy(since_);
}

void CudaTimings::start(cudaStream_t stream) {
  check_cuda(cudaEventCreate(&since_), "making an event");
  check_cuda(cudaEventRecord(since_, stream), "recording an event");
}

LaneSpans CudaTimings::stop() {
  const cudaEvent_t since = std::exchange(since_, nullptr);
  auto seconds = [&](cudaEvent_t event) {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, since, event), "reading an event");
    return milliseconds / 1e3;
  };
  LaneSpans spans;
  for (Lane lane : kLanes) {
    for (const Events& events : lanes_[lane]) {
      spans[lane].push_back({seconds(events.begin), seconds(events.end)});
      destroy(events);
    }
    lanes_[lane].clear();
  }
  cudaEventDestroy(since);
  return spans;
}

void CudaTimings::destroy(const Events& events) {
  cudaEventDestroy(events.begin);
  cudaEventDestroy(events.end);
}

CudaTimings::Call::Call(CudaTimings& timings, Lane lane, cudaStream_t stream)
    : timings_(timings), lane_(lane), stream_(stream) {
  if (timings_.since_) begin_ = mark(stream_);
}

CudaTimings::Call::~Call() {
  if (timings_.since_) timings_.lanes_[lane_].push_back({begin_, mark(stream_)});
}

}  // namespace longshore::offload
