#include "longshore/offload/backends/cuda/cuda_pinned_memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "longshore/base/parallel.h"
#include "longshore/base/round_up.h"
#include "longshore/offload/memory/host_memory.h"

namespace longshore::offload {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kTouchedAtOnce = int64_t{64} << 20;

// Memory that begins at a huge page's border where it is at least as large as a huge page. Null
// where the system refuses.
std::byte* map_pages(int64_t bytes) {
  const int64_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  const int64_t mapped = bytes + alignment - kPage;
  void* begin = mmap(nullptr, static_cast<size_t>(mapped), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(begin);
  const int64_t before =
      round_up(reinterpret_cast<int64_t>(first), alignment) - reinterpret_cast<int64_t>(first);
  const int64_t after = mapped - before - bytes;
  if (before > 0) munmap(first, static_cast<size_t>(before));
  if (after > 0) munmap(first + before + bytes, static_cast<size_t>(after));
  return first + before;
}

// Asks the system to take the pages from that memory node. A refusal costs only speed.
void prefer_memory_node(std::byte* memory, int64_t bytes, int node) {
  constexpr int kNodes = 8 * sizeof(unsigned long);
  if (node < 0 || node >= kNodes) return;
  const unsigned long nodes = 1ul << node;
  constexpr int kPreferred = 1;  // MPOL_PREFERRED of <numaif.h>
  syscall(SYS_mbind, memory, bytes, kPreferred, &nodes, kNodes, 0);
}

void touch_pages(std::byte* memory, int64_t bytes) {
  parallel_for(static_cast<size_t>(round_up(bytes, kTouchedAtOnce) / kTouchedAtOnce),
               [&](size_t part) {
                 const int64_t begin = static_cast<int64_t>(part) * kTouchedAtOnce;
                 const int64_t end = std::min(begin + kTouchedAtOnce, bytes);
                 for (int64_t at = begin; at < end; at += kPage)
                   *const_cast<volatile std::byte*>(memory + at) = std::byte{0};
               });
}

}  // namespace

CudaPinnedMemory::CudaPinnedMemory(int device) {
  if (cudaDeviceGetAttribute(&memory_node_, cudaDevAttrHostNumaId, device) != cudaSuccess) {
    cudaGetLastError();  // resets the error: pages then come from any node
    memory_node_ = -1;
  }
}

std::byte* CudaPinnedMemory::allocate(int64_t bytes, cudaError_t& status) {
  bytes = round_up(bytes, kPage);
  status = cudaErrorMemoryAllocation;
  // The system grants more memory than it has, and kills programs that then touch all of it.
  if (bytes > available_host_bytes()) return nullptr;
  std::byte* memory = map_pages(bytes);
  if (!memory) return nullptr;
  madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  prefer_memory_node(memory, bytes, memory_node_);
  touch_pages(memory, bytes);
  status = cudaHostRegister(memory, static_cast<size_t>(bytes), cudaHostRegisterDefault);
  if (status == cudaSuccess) {
    mapped_bytes_[memory] = bytes;
    return memory;
  }
  cudaGetLastError();  // resets the error, which the next launch would report
  munmap(memory, static_cast<size_t>(bytes));
  // Some sandboxes refuse to register memory, but do allocate pinned memory.
  void* allocated = nullptr;
  status = cudaHostAlloc(&allocated, static_cast<size_t>(bytes), cudaHostAllocDefault);
  return static_cast<std::byte*>(allocated);
}

void CudaPinnedMemory::free(std::byte* memory) {
  const auto mapped = mapped_bytes_.find(memory);
  if (mapped == mapped_bytes_.end()) {
    cudaFreeHost(memory);
    return;
  }
  cudaHostUnregister(memory);
  munmap(memory, static_cast<size_t>(mapped->second));
  mapped_bytes_.erase(mapped);
}

}  // namespace longshore::offload
