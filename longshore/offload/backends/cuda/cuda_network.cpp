#include "longshore/offload/backends/cuda/cuda_network.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "longshore/base/error.h"

namespace longshore::offload {

void CudaNetwork::run(cudaStream_t stream, const models::Op& op, const models::KernelCall& call) {
  if (!communicator_) throw InternalError(std::string(op.name) + ": there is no other device");
  models::KernelCall on_stream = call;
  on_stream.stream = stream;
  communicator_->run(op, on_stream);
  has_work_ = true;
}

void CudaNetwork::wait_until(const std::function<cudaError_t()>& query) {
  while (true) {
    communicator_->require_working();
    if (query() != cudaErrorNotReady) return;
    cudaGetLastError();  // resets what is no error
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::exception_ptr CudaNetwork::wait(cudaStream_t stream) {
  if (!std::exchange(has_work_, false)) return nullptr;
  try {
    wait_until([&] { return cudaStreamQuery(stream); });
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace longshore::offload
