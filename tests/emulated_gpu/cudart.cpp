// The CUDA runtime of the emulated GPU: what LibTorch and Longshore ask of libcudart.so.13.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/device.h"
#include "tests/emulated_gpu/kernels.h"
#include "tests/emulated_gpu/streams.h"

using longshore::emulated::Device;
using longshore::emulated::Event;
using longshore::emulated::Kernel;
using longshore::emulated::MemoryKind;
using longshore::emulated::Stream;
using longshore::emulated::stream_of;

namespace {

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) { return last_error = error; }

Device& device() { return Device::get(); }
Event* event_of(cudaEvent_t handle) { return reinterpret_cast<Event*>(handle); }

int capability() {
  static const int capability = [] {
    const char* value = std::getenv("LONGSHORE_EMULATED_CAPABILITY");
    return value ? std::atoi(value) : 90;
  }();
  return capability;
}

[[noreturn]] void unknown(const char* what, const std::string& name) {
  std::fprintf(stderr, "emulated GPU: %s %s\n", what, name.c_str());
  std::abort();
}

// --- copies

cudaError_t copy(void* to, const void* from, size_t bytes, Stream* stream, bool is_asynchronous) {
  if (bytes == 0) return cudaSuccess;
  if (!device().holds(to, bytes) || !device().holds(from, bytes))
    return failed(cudaErrorInvalidValue);
  const MemoryKind source = device().kind(from), target = device().kind(to);
  if (source == MemoryKind::pageable && target != MemoryKind::pageable) {
    // Read before the call comes back, written some time after.
    auto* begin = static_cast<const char*>(from);
    std::vector<char> staged(begin, begin + bytes);
    device().enqueue(stream,
                     [=, staged = std::move(staged)] { std::memcpy(to, staged.data(), bytes); });
    return cudaSuccess;
  }
  device().enqueue(stream, [=] { std::memmove(to, from, bytes); });
  if (!is_asynchronous || target == MemoryKind::pageable) device().finish(stream);
  return cudaSuccess;
}

// --- kernels

std::map<const void*, std::string>& registered() {
  static auto* names = new std::map<const void*, std::string>;
  return *names;
}

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments,
                   size_t shared_bytes, cudaStream_t stream) {
  const auto found = registered().find(function);
  if (found == registered().end()) return failed(cudaErrorInvalidDeviceFunction);
  const std::string name = longshore::emulated::demangled(found->second.c_str());
  const Kernel* kernel = longshore::emulated::find_kernel(name);
  if (!kernel) unknown("nothing emulates", name);
  if (grid.x == 0 || block.x == 0 || block.x > 1024 || shared_bytes > (48u << 10))
    return failed(cudaErrorInvalidConfiguration);
  const auto* begin = static_cast<const char*>(arguments[0]);
  std::vector<char> argument(begin, begin + kernel->argument_bytes);
  device().enqueue(stream_of(stream), [=, argument = std::move(argument)] {
    kernel->run(argument.data(), grid.x, shared_bytes);
  });
  return cudaSuccess;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  registered()[function] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  if (configurations.empty()) return failed(cudaErrorMissingConfiguration);
  const Configuration configuration = configurations.back();
  configurations.pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared_bytes, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function,
                                void** arguments) {
  return launch(function, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream);
}

// --- the device

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  return number == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::strcpy(p->name, "emulated GPU");
  p->totalGlobalMem = device().total_bytes();
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = 227 << 10;
  p->sharedMemPerMultiprocessor = 228 << 10;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->maxThreadsPerMultiProcessor = 2048;
  p->major = capability() / 10;
  p->minor = capability() % 10;
  p->multiProcessorCount = 132;
  p->textureAlignment = 512;
  p->l2CacheSize = 50 << 20;
  p->unifiedAddressing = p->concurrentKernels = 1;
  p->hostNumaId = -1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = capability() / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = capability() % 10;
      return cudaSuccess;
    case cudaDevAttrHostNumaId:
      *value = -1;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    default:
      unknown("cudaDeviceGetAttribute is asked for", std::to_string(attribute));
  }
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:01:00.0");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  device().finish_all();
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  if (result) *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// --- errors

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    default:
      return "an error of the emulated GPU";
  }
}

// --- memory

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = device().allocate(bytes);
  return *memory ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  if (memory && !device().free(memory)) return failed(cudaErrorInvalidValue);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = device().pin(bytes);
  return *memory ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  static const bool is_refused = std::getenv("LONGSHORE_EMULATED_SANDBOX") != nullptr;
  if (is_refused) return failed(cudaErrorNotSupported);
  return device().register_host(memory, bytes) ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaHostUnregister(void* memory) {
  return device().unregister_host(memory) ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = device().free_bytes();
  *total = device().total_bytes();
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  switch (device().kind(memory)) {
    case MemoryKind::device:
      attributes->type = cudaMemoryTypeDevice;
      attributes->devicePointer = const_cast<void*>(memory);
      break;
    case MemoryKind::pinned:
      attributes->type = cudaMemoryTypeHost;
      attributes->hostPointer = attributes->devicePointer = const_cast<void*>(memory);
      break;
    case MemoryKind::pageable:
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -1;
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return copy(to, from, bytes, stream_of(nullptr), false);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return copy(to, from, bytes, stream_of(stream), true);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (!device().holds(to, bytes)) return failed(cudaErrorInvalidValue);
  device().enqueue(stream_of(stream), [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

// --- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(device().make_stream());
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  device().destroy(stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  device().finish(stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return device().poll(stream_of(stream)) ? cudaSuccess : failed(cudaErrorNotReady);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  device().wait(stream_of(stream), *event_of(event));
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  device().enqueue(stream_of(stream), [=] { function(data); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  device().record(stream_of(stream), *event_of(event));
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto mark = event_of(event)->mark;
  return !mark || device().poll(*mark) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto mark = event_of(event)->mark) device().finish(*mark);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const auto from = event_of(begin)->mark, to = event_of(end)->mark;
  if (!from || !to) return failed(cudaErrorInvalidResourceHandle);
  if (!from->is_done || !to->is_done) return failed(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return cudaSuccess;
}

}  // extern "C"
