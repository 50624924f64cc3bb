#include "offload/cuda_backend.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "offload/arena.h"
#include "offload/cuda_workspace_allocator.h"
#include "offload/host_memory.h"

namespace longshore::offload {
namespace {

constexpr int kDevice = 0;

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw Error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

class CudaBackend : public Backend {
 public:
  CudaBackend() {
    check(cudaSetDevice(kDevice), "choosing the device");
    c10::cuda::CUDACachingAllocator::init(kDevice + 1);
    for (cudaStream_t& stream : streams_)
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    // cuBLAS keeps workspaces for each stream; they must not come from an op's.
    c10::cuda::CUDAStreamGuard guard(compute());
    at::cuda::getCurrentCUDABlasHandle();
    at::cuda::getCUDABlasLtWorkspace();
  }

  ~CudaBackend() override {
    for (auto& [event, handle] : events_) cudaEventDestroy(handle);
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }

  models::Target target() const override { return models::Target::cuda; }

  std::byte* allocate(MemoryKind kind, int64_t bytes) override {
    bytes = std::max(align_up(bytes), kArenaAlignment);
    void* memory = nullptr;
    // Exact sizes: LibTorch's pinned allocator rounds to powers of two.
    cudaError_t status = kind == MemoryKind::device
                             ? cudaMalloc(&memory, bytes)
                             : cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
    if (status != cudaSuccess) {
      cudaGetLastError();  // it was reported here
      throw PlanError(std::string(name(kind)) + ": asked for " + bytes_text(bytes) + ", " +
                      bytes_text(available_bytes(kind)) +
                      " are available: " + cudaGetErrorString(status));
    }
    return static_cast<std::byte*>(memory);
  }

  void free(MemoryKind kind, std::byte* memory) override {
    kind == MemoryKind::device ? cudaFree(memory) : cudaFreeHost(memory);
  }

  int64_t available_bytes(MemoryKind kind) override {
    if (kind == MemoryKind::pinned_host) return available_host_bytes();
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return static_cast<int64_t>(free);
  }

  void run(const models::Op& op, const models::KernelCall& call) override {
    c10::cuda::CUDAStreamGuard guard(compute());
    models::KernelCall on_stream = call;
    on_stream.stream = stream(Lane::compute);
    begin_workspace(call.workspace);
    try {
      op.cuda.run(on_stream);
    } catch (const c10::Error& error) {
      throw Error(std::string(op.name) + " on CUDA: " + error.what_without_backtrace());
    }
    WorkspaceUse use = end_workspace();
    if (use.undeclared_bytes > 0 && warned_.insert(op.name).second)
      std::fprintf(stderr, "warning: %s declares a workspace of %zu bytes and takes %lld more\n",
                   op.name, call.workspace.size(), static_cast<long long>(use.undeclared_bytes));
  }

  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override {
    check(cudaMemcpyAsync(to.data, from.data, from.type.bytes(), cudaMemcpyDefault, stream(lane)),
          "a copy");
  }

  void record(Lane lane, int event) override {
    cudaEvent_t& handle = events_[event];
    if (!handle)
      check(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming), "making an event");
    check(cudaEventRecord(handle, stream(lane)), "recording an event");
  }

  void wait(Lane lane, int event) override {
    check(cudaStreamWaitEvent(stream(lane), events_.at(event), 0), "waiting for an event");
  }

  void synchronize() override {
    for (cudaStream_t stream : streams_) check(cudaStreamSynchronize(stream), "a kernel or copy");
  }

  void write(MemoryKind, std::byte* to, const void* from, int64_t bytes) override {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "a copy");
  }
  void read(MemoryKind, void* to, const std::byte* from, int64_t bytes) override {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "a copy");
  }

 private:
  cudaStream_t stream(Lane lane) const { return streams_[static_cast<size_t>(lane)]; }
  c10::cuda::CUDAStream compute() const {
    return c10::cuda::getStreamFromExternal(stream(Lane::compute), kDevice);
  }

  std::array<cudaStream_t, kLanes.size()> streams_{};
  std::map<int, cudaEvent_t> events_;
  std::set<std::string> warned_;
};

}  // namespace

CudaDevice find_cuda_device() {
  int count = 0;
  if (cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
    return {.description = std::string("CUDA finds no device: ") + cudaGetErrorString(status)};
  if (count == 0) return {.description = "no GPU is there"};
  cudaDeviceProp properties;
  if (cudaError_t status = cudaGetDeviceProperties(&properties, kDevice); status != cudaSuccess)
    return {.description = std::string("the GPU does not answer: ") + cudaGetErrorString(status)};
  return {.usable = true,
          .description = std::string(properties.name) + ", " +
                         bytes_text(static_cast<int64_t>(properties.totalGlobalMem))};
}

std::unique_ptr<Backend> make_cuda_backend() { return std::make_unique<CudaBackend>(); }

}  // namespace longshore::offload
