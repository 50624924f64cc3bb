#include "offload/cuda_backend.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/cuda_check.h"
#include "base/error.h"
#include "offload/alignment.h"
#include "offload/cuda_pinned_memory.h"
#include "offload/cuda_staging.h"
#include "offload/cuda_workspace_allocator.h"
#include "offload/host_memory.h"

namespace longshore::offload {
namespace {

class CudaBackend : public Backend {
 public:
  CudaBackend(int device, std::shared_ptr<Communicator> communicator, models::Target target)
      : device_(device),
        communicator_(std::move(communicator)),
        target_(target),
        pinned_memory_(device) {
    choose_device();
    c10::cuda::CUDACachingAllocator::init(device_ + 1);
    make_streams();
    check_cuda(
        cudaEventCreateWithFlags(&host_work_done_, cudaEventBlockingSync | cudaEventDisableTiming),
        "making an event");
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
    cudaEventDestroy(host_work_done_);
    for (const std::vector<Timing>& timings : timings_)
      for (const Timing& timing : timings) destroy(timing);
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

  int64_t used_bytes(MemoryKind kind) override {
    if (kind != MemoryKind::device) return resident_bytes();
    const DeviceBytes bytes = device_memory();
    return bytes.total - bytes.free;
  }

  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override {
    if (host_has_failed_) synchronize();
    Recording recording(*this, lane);
    if (lane == Lane::network)
      exchange(op, call);
    else if (lane == Lane::host_compute)
      run_on_host(op, call);
    else
      run_on_device(op, call);
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    if (host_has_failed_) synchronize();
    Recording recording(*this, lane);
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

  void synchronize() override {
    if (std::exchange(host_has_work_, false)) sleep_until_host_is_done();
    cudaError_t first = cudaSuccess;  // all lanes end before anything is thrown
    for (cudaStream_t stream : streams_)
      if (cudaError_t status = cudaStreamSynchronize(stream); first == cudaSuccess) first = status;
    check_cuda(first, "a kernel or copy");
    std::lock_guard lock(host_failure_mutex_);
    host_has_failed_ = false;
    if (host_failure_) std::rethrow_exception(std::exchange(host_failure_, nullptr));
  }

  void start_recording() override {
    synchronize();
    check_cuda(cudaEventCreate(&recording_since_), "making an event");
    check_cuda(cudaEventRecord(recording_since_, stream(Lane::compute)), "recording an event");
    is_recording_ = true;
  }

  LaneSpans stop_recording() override {
    synchronize();
    is_recording_ = false;
    LaneSpans spans;
    auto seconds = [&](cudaEvent_t event) {
      float milliseconds = 0;
      check_cuda(cudaEventElapsedTime(&milliseconds, recording_since_, event), "reading an event");
      return milliseconds / 1e3;
    };
    for (size_t lane = 0; lane < timings_.size(); ++lane) {
      for (const Timing& timing : timings_[lane]) {
        spans[lane].push_back({seconds(timing.begin), seconds(timing.end)});
        destroy(timing);
      }
      timings_[lane].clear();
    }
    cudaEventDestroy(recording_since_);
    return spans;
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
  struct Timing {
    cudaEvent_t begin = nullptr, end = nullptr;
  };

  // Puts events around what is enqueued during its lifetime, while the backend records.
  class Recording {
   public:
    Recording(CudaBackend& backend, Lane lane) : backend_(backend), lane_(lane) {
      if (backend.is_recording_) timing_.begin = mark();
    }
    ~Recording() {
      if (!timing_.begin) return;
      timing_.end = mark();
      backend_.timings_[static_cast<size_t>(lane_)].push_back(timing_);
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    // A failure here is reported when the times are read.
    cudaEvent_t mark() {
      cudaEvent_t event = nullptr;
      cudaEventCreate(&event);
      cudaEventRecord(event, backend_.stream(lane_));
      return event;
    }

    CudaBackend& backend_;
    Lane lane_;
    Timing timing_;
  };

  struct DeviceBytes {
    int64_t free, total;
  };
  static DeviceBytes device_memory() {
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  static void destroy(const Timing& timing) {
    cudaEventDestroy(timing.begin);
    cudaEventDestroy(timing.end);
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
    const WorkspaceUse use = end_workspace();
    if (use.undeclared_bytes > 0 && warned_.insert(op.name).second)
      std::fprintf(stderr, "warning: %s declares a workspace of %zu bytes and takes %lld more\n",
                   op.name, call.workspace.size(), static_cast<long long>(use.undeclared_bytes));
  }

  void exchange(const models::Op& op, const models::KernelCall& call) {
    if (!communicator_) throw InternalError(std::string(op.name) + ": there is no other device");
    models::KernelCall on_stream = call;
    on_stream.stream = stream(Lane::network);
    communicator_->run(op, on_stream);
  }

  // A thread of the driver calls the kernel when the stream reaches the call.
  struct HostCall {
    CudaBackend& backend;
    const models::Op& op;
    models::KernelCall call;
  };
  void run_on_host(const models::Op& op, const models::KernelCall& call) {
    auto* host_call = new HostCall{*this, op, call};
    host_call->call.target = models::Target::cpu;
    cudaError_t status = cudaLaunchHostFunc(stream(Lane::host_compute), host_function, host_call);
    if (status != cudaSuccess) delete host_call;
    check_cuda(status, "work for the host");
    host_has_work_ = true;
  }
  // A thread that waits for a stream spins on a core that the host's work needs. Errors here are
  // the stream's, and synchronize() reports them when it waits for the stream.
  void sleep_until_host_is_done() {
    cudaEventRecord(host_work_done_, stream(Lane::host_compute));
    cudaEventSynchronize(host_work_done_);
  }
  static void host_function(void* data) {
    std::unique_ptr<HostCall> host_call(static_cast<HostCall*>(data));
    CudaBackend& backend = host_call->backend;
    if (backend.host_has_failed_) return;
    try {
      host_call->op.cpu.run(host_call->call);
    } catch (...) {
      std::lock_guard lock(backend.host_failure_mutex_);
      backend.host_failure_ = std::current_exception();
      backend.host_has_failed_ = true;
    }
  }

  // Collectives have priority. A collective has few blocks, and if these had to wait for all blocks
  // of a large product, what depends on the collective would wait as long.
  void make_streams() {
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    for (Lane lane : kLanes)
      check_cuda(
          cudaStreamCreateWithPriority(&streams_[static_cast<size_t>(lane)], cudaStreamNonBlocking,
                                       lane == Lane::network ? greatest : least),
          "making a stream");
  }

  // The workspaces belong to our streams, which no other backend uses.
  static void give_back_aten_workspaces() {
    try {
      at::cuda::clearCublasWorkspaces();
      c10::cuda::CUDACachingAllocator::emptyCache();
    } catch (const c10::Error&) {  // from a GPU that has failed, which was reported before
    }
  }

  void choose_device() const { check_cuda(cudaSetDevice(device_), "choosing the device"); }

  cudaStream_t stream(Lane lane) const { return streams_[static_cast<size_t>(lane)]; }
  c10::cuda::CUDAStream compute() const {
    return c10::cuda::getStreamFromExternal(stream(Lane::compute),
                                            static_cast<c10::DeviceIndex>(device_));
  }

  int device_;
  std::shared_ptr<Communicator> communicator_;
  models::Target target_;
  CudaPinnedMemory pinned_memory_;
  CudaStaging staging_;
  std::array<cudaStream_t, kLanes.size()> streams_{};
  std::map<int, cudaEvent_t> events_;
  std::set<std::string> warned_;
  bool host_has_work_ = false;  // since the last wait
  cudaEvent_t host_work_done_ = nullptr;
  std::atomic<bool> host_has_failed_ = false;
  std::mutex host_failure_mutex_;
  std::exception_ptr host_failure_;
  bool is_recording_ = false;
  cudaEvent_t recording_since_ = nullptr;
  std::array<std::vector<Timing>, kLanes.size()> timings_;
};

}  // namespace

CudaDevice find_cuda_device(int64_t local_rank) {
  int count = 0;
  if (cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
    return {.description = std::string("CUDA finds no device: ") + cudaGetErrorString(status)};
  if (count == 0) return {.description = "no GPU is there"};
  if (count > 1 && local_rank >= count)
    return {.description = "process " + std::to_string(local_rank) + " of its node finds " +
                           std::to_string(count) + " GPUs"};
  const int number = count == 1 ? 0 : static_cast<int>(local_rank);
  cudaDeviceProp properties;
  if (cudaError_t status = cudaGetDeviceProperties(&properties, number); status != cudaSuccess)
    return {.description = std::string("the GPU does not answer: ") + cudaGetErrorString(status)};
  char bus_id[32] = "";
  check_cuda(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, number),
             "asking for the device's bus id");
  return {.usable = true,
          .number = number,
          .description = std::string(properties.name) + ", " +
                         bytes_text(static_cast<int64_t>(properties.totalGlobalMem)),
          .pci_bus_id = bus_id};
}

std::unique_ptr<Backend> make_cuda_backend(int device, std::shared_ptr<Communicator> communicator,
                                           models::Target target) {
  return std::make_unique<CudaBackend>(device, std::move(communicator), target);
}

}  // namespace longshore::offload
