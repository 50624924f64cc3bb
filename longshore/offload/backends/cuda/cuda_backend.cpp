#include "longshore/offload/backends/cuda/cuda_backend.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "longshore/base/cuda_check.h"
#include "longshore/base/error.h"
#include "longshore/offload/backends/cuda/cuda_host_work.h"
#include "longshore/offload/backends/cuda/cuda_network.h"
#include "longshore/offload/backends/cuda/cuda_pinned_memory.h"
#include "longshore/offload/backends/cuda/cuda_staging.h"
#include "longshore/offload/backends/cuda/cuda_timings.h"
#include "longshore/offload/backends/cuda/cuda_workspace_allocator.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/memory/host_memory.h"

namespace longshore::offload {
namespace {

class CudaBackend : public Backend {
 public:
  CudaBackend(int device, std::shared_ptr<Communicator> communicator, models::Target target)
      : device_(device),
        network_(std::move(communicator)),
        target_(target),
        pinned_memory_(device) {
    choose_device();
    c10::cuda::CUDACachingAllocator::init(device_ + 1);
    make_streams();
    // ATen's cuBLAS keeps a workspace for each stream. It is made here, so that it does not come
    // from an op's workspace.
    c10::cuda::CUDAStreamGuard guard(compute());
    try {
      at::cuda::getCurrentCUDABlasHandle();
      at::cuda::getCUDABlasLtWorkspace();
    } catch (const c10::Error& error) {
      throw Error("CUDA: making a cuBLAS handle, with " +
                  bytes_text(available_bytes(MemoryKind::device)) +
                  " of device memory available: " + error.what_without_backtrace());
    }
  }

  ~CudaBackend() override {
    for (cudaStream_t stream : streams_) cudaStreamSynchronize(stream);
    for (auto& [event, handle] : events_) cudaEventDestroy(handle);
    give_back_aten_workspaces();
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }

  models::Target target() const override { return target_; }

  std::byte* allocate(MemoryKind kind, int64_t bytes) override {
    bytes = std::max(align_up(bytes), kArenaAlignment);
    void* memory = nullptr;
    // Exact sizes: LibTorch's pinned allocator rounds to powers of two.
    cudaError_t status = cudaSuccess;
    if (kind == MemoryKind::device)
      status = cudaMalloc(&memory, bytes);
    else if (kind == MemoryKind::pinned_host)
      memory = pinned_memory_.allocate(bytes, status);
    else if (!(memory = std::aligned_alloc(kArenaAlignment, bytes)))
      status = cudaErrorMemoryAllocation;
    if (status != cudaSuccess) {
      cudaGetLastError();  // resets the error, which is reported here
      throw OutOfMemoryError(std::string(name(kind)) + ": asked for " + bytes_text(bytes) + ", " +
                             bytes_text(available_bytes(kind)) +
                             " are available: " + cudaGetErrorString(status));
    }
    return static_cast<std::byte*>(memory);
  }

  void free(MemoryKind kind, std::byte* memory) override {
    if (kind == MemoryKind::device)
      cudaFree(memory);
    else if (kind == MemoryKind::pinned_host)
      pinned_memory_.free(memory);
    else
      std::free(memory);
  }

  int64_t available_bytes(MemoryKind kind) override {
    return kind == MemoryKind::device ? device_memory().free : available_host_bytes();
  }

  int64_t used_device_bytes() override {
    const DeviceBytes bytes = device_memory();
    return bytes.total - bytes.free;
  }

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    if (host_work_.has_failed()) synchronize();
    if (lane == Lane::compute) stay_near();
    const CudaTimings::Call timed(timings_, lane, stream(lane));
    if (lane == Lane::network)
      network_.run(stream(lane), op, call);
    else if (lane == Lane::host_compute)
      host_work_.run(stream(lane), op, call);
    else
      run_on_device(op, call);
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    if (host_work_.has_failed()) synchronize();
    const CudaTimings::Call timed(timings_, lane, stream(lane));
    check_cuda(
        cudaMemcpyAsync(to.data, from.data, from.type.bytes(), cudaMemcpyDefault, stream(lane)),
        "a copy");
  }

  void record(Lane lane, int event) override {
    cudaEvent_t& handle = events_[event];
    if (!handle)
      check_cuda(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming), "making an event");
    check_cuda(cudaEventRecord(handle, stream(lane)), "recording an event");
  }

  void wait(Lane lane, int event) override {
    check_cuda(cudaStreamWaitEvent(stream(lane), events_.at(event), 0), "waiting for an event");
  }

  // All lanes end before anything is thrown.
  void synchronize() override {
    const std::exception_ptr network_failure = network_.wait(stream(Lane::network));
    host_work_.wait(stream(Lane::host_compute));
    cudaError_t first = cudaSuccess;
    for (cudaStream_t stream : streams_)
      if (cudaError_t status = cudaStreamSynchronize(stream); first == cudaSuccess) first = status;
    const std::exception_ptr host_failure = host_work_.take_failure();
    if (network_failure) std::rethrow_exception(network_failure);
    check_cuda(first, "a kernel or copy");
    if (host_failure) std::rethrow_exception(host_failure);
  }

  void start_recording() override {
    synchronize();
    timings_.start(stream(Lane::compute));
  }

  LaneSpans stop_recording() override {
    synchronize();
    return timings_.stop();
  }

  void write(MemoryKind kind, std::byte* to, const void* from, int64_t bytes) override {
    if (kind != MemoryKind::device) return void(std::memcpy(to, from, bytes));
    choose_device();  // of the calling thread
    staging_.to_device(to, from, bytes);
  }
  void read(MemoryKind kind, void* to, const std::byte* from, int64_t bytes) override {
    if (kind != MemoryKind::device) return void(std::memcpy(to, from, bytes));
    choose_device();  // of the calling thread
    staging_.to_host(to, from, bytes);
  }
  void write_zeros(MemoryKind kind, std::byte* to, int64_t bytes) override {
    if (kind != MemoryKind::device) return void(std::memset(to, 0, bytes));
    choose_device();  // of the calling thread
    check_cuda(cudaMemset(to, 0, bytes), "writing zeros");
    // cudaMemset returns before the bytes are written, and lanes do not wait for it.
    check_cuda(cudaStreamSynchronize(nullptr), "writing zeros");
  }

 private:
  struct DeviceBytes {
    int64_t free, total;
  };
  static DeviceBytes device_memory() {
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  void run_on_device(const models::Op& op, const models::KernelCall& call) {
    c10::cuda::CUDAStreamGuard guard(compute());
    models::KernelCall on_stream = call;
    on_stream.stream = stream(Lane::compute);
    begin_workspace(call.workspace);
    try {
      op.kernel(target_).run(on_stream);
    } catch (const c10::Error& error) {
      abandon_workspace();
      throw Error(std::string(op.name) + " on CUDA: " + error.what_without_backtrace());
    } catch (...) {
      abandon_workspace();
      throw;
    }
    const int64_t undeclared_bytes = end_workspace();
    if (undeclared_bytes > 0 && warned_.insert(op.name).second)
      std::fprintf(stderr, "warning: %s declares a workspace of %zu bytes and takes %lld more\n",
                   op.name, call.workspace.size(), static_cast<long long>(undeclared_bytes));
  }

  // Among several devices. A stream has room for about a thousand launches; the next one would
  // block in the driver, where nobody sees that the other devices are lost. So this thread is never
  // so far ahead of the device, but far enough that the device always has work.
  void stay_near() {
    constexpr int64_t kCallsPerMark = 64, kMarks = 4;
    if (!network_.has_others() || ++calls_ % kCallsPerMark != 0) return;
    const int mark = -1 - static_cast<int>(calls_ / kCallsPerMark % kMarks);  // no instruction's
    if (const auto known = events_.find(mark); known != events_.end())
      network_.wait_until([&] { return cudaEventQuery(known->second); });
    record(Lane::compute, mark);
  }

  // Collectives have priority. A collective has few blocks, and if these had to wait for all blocks
  // of a large product, what depends on the collective would wait as long.
  void make_streams() {
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    for (Lane lane : kLanes)
      check_cuda(cudaStreamCreateWithPriority(&streams_[lane], cudaStreamNonBlocking,
                                              lane == Lane::network ? greatest : least),
                 "making a stream");
  }

  // Of our stream alone: other backends need theirs.
  void give_back_aten_workspaces() const {
    auto erase_ours = [&](at::cuda::WorkspaceMapWithMutex& workspaces) {
      std::unique_lock lock(workspaces.mutex);
      std::erase_if(workspaces.map, [&](const auto& one) {
        const auto& [handle, of_stream] = one.first;
        return of_stream == stream(Lane::compute);
      });
    };
    try {
      erase_ours(at::cuda::cublas_handle_stream_to_workspace());
      erase_ours(at::cuda::cublaslt_handle_stream_to_workspace());
      c10::cuda::CUDACachingAllocator::emptyCache();
    } catch (const c10::Error&) {  // from a GPU that has failed, which was reported before
    }
  }

  void choose_device() const { check_cuda(cudaSetDevice(device_), "choosing the device"); }

  cudaStream_t stream(Lane lane) const { return streams_[lane]; }
  c10::cuda::CUDAStream compute() const {
    return c10::cuda::getStreamFromExternal(stream(Lane::compute),
                                            static_cast<c10::DeviceIndex>(device_));
  }

  int device_;
  CudaNetwork network_;
  models::Target target_;
  CudaPinnedMemory pinned_memory_;
  CudaStaging staging_;
  PerLane<cudaStream_t> streams_{};
  std::map<int, cudaEvent_t> events_;
  std::set<std::string> warned_;
  CudaHostWork host_work_;
  int64_t calls_ = 0;  // on Lane::compute, among several devices
  CudaTimings timings_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int device, std::shared_ptr<Communicator> communicator,
                                           models::Target target) {
  return std::make_unique<CudaBackend>(device, std::move(communicator), target);
}

}  // namespace longshore::offload
