// CudaHostWork runs kernels on the host when a stream reaches them, and keeps why one failed.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "longshore/models/ir/op.h"

namespace longshore::offload {

class CudaHostWork {
 public:
  CudaHostWork() = default;
  ~CudaHostWork();
  CudaHostWork(const CudaHostWork&) = delete;
  CudaHostWork& operator=(const CudaHostWork&) = delete;

  // Enqueues the op's CPU kernel. Once one has failed, those after it do nothing. Throws Error.
  void run(cudaStream_t stream, const models::Op& op, const models::KernelCall& call);
  bool has_failed() const { return has_failed_; }

  // Waits for what was enqueued since the last wait. Errors of the stream are left to whoever waits
  // for the stream.
  void wait(cudaStream_t stream);
  // Why a kernel failed since this was asked last; null where none has.
  std::exception_ptr take_failure();

 private:
  struct Call;
  static void call(void* data);

  cudaEvent_t done_ = nullptr;  // of the device that is chosen when work first comes
  bool has_work_ = false;
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;  // of the failure
  std::exception_ptr failure_;
};

}  // namespace longshore::offload
