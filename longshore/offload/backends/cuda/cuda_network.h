// CudaNetwork runs collectives on a stream, and waits for them without waiting for devices that are
// lost.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <functional>
#include <memory>

#include "longshore/models/ir/op.h"
#include "longshore/offload/backends/communicator.h"

namespace longshore::offload {

class CudaNetwork {
 public:
  // Without a communicator there is no other device.
  explicit CudaNetwork(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  bool has_others() const { return communicator_ != nullptr; }
  // Enqueues the collective. Throws as Communicator::run() does.
  void run(cudaStream_t stream, const models::Op& op, const models::KernelCall& call);

  // Returns once `query` says that what it asks for is done. A collective whose other devices
  // cannot be reached any more never ends by itself: throws why it was ended.
  void wait_until(const std::function<cudaError_t()>& query);
  // Waits for what was enqueued since the last wait. Returns why it was ended, or null.
  std::exception_ptr wait(cudaStream_t stream);

 private:
  std::shared_ptr<Communicator> communicator_;
  bool has_work_ = false;
};

}  // namespace longshore::offload
