#include "longshore/offload/backends/cuda/cuda_host_work.h"

#include <memory>
#include <utility>

#include "longshore/base/cuda_check.h"

namespace longshore::offload {

struct CudaHostWork::Call {
  CudaHostWork& work;
  const models::Op& op;
  models::KernelCall call;
};

CudaHostWork::~CudaHostWork() {
  if (done_) cudaEventDestroy(done_);
}

// A thread of the driver calls the kernel.
void CudaHostWork::run(cudaStream_t stream, const models::Op& op, const models::KernelCall& call) {
  if (!done_)
    check_cuda(cudaEventCreateWithFlags(&done_, cudaEventBlockingSync | cudaEventDisableTiming),
               "making an event");
  auto* host_call = new Call{*this, op, call};
  host_call->call.target = models::Target::cpu;
  cudaError_t status = cudaLaunchHostFunc(stream, CudaHostWork::call, host_call);
  if (status != cudaSuccess) delete host_call;
  check_cuda(status, "work for the host");
  has_work_ = true;
}

void CudaHostWork::call(void* data) {
  std::unique_ptr<Call> host_call(static_cast<Call*>(data));
  CudaHostWork& work = host_call->work;
  if (work.has_failed_) return;
  try {
    host_call->op.cpu.run(host_call->call);
  } catch (...) {
    std::lock_guard lock(work.mutex_);
    work.failure_ = std::current_exception();
    work.has_failed_ = true;
  }
}

// A thread that waits for a stream spins on a core that the host's work needs.
void CudaHostWork::wait(cudaStream_t stream) {
  if (!std::exchange(has_work_, false)) return;
  cudaEventRecord(done_, stream);
  cudaEventSynchronize(done_);
}

std::exception_ptr CudaHostWork::take_failure() {
  std::lock_guard lock(mutex_);
  has_failed_ = false;
  return std::exchange(failure_, nullptr);
}

}  // namespace longshore::offload
