#include "tests/offload/allocations.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace longshore::offload {
namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> new_count, new_bytes, new_largest_bytes, c10_count, c10_bytes;

void* try_take(size_t bytes, size_t alignment) {
  if (counting) {
    int64_t size = static_cast<int64_t>(bytes);
    ++new_count;
    new_bytes += size;
    for (int64_t largest = new_largest_bytes;
         size > largest && !new_largest_bytes.compare_exchange_weak(largest, size);) {
    }
  }
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes ? bytes : 1);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* take(size_t bytes, size_t alignment) {
  void* memory = try_take(bytes, alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* other) : other_(other) {}

  c10::DataPtr allocate(size_t bytes) override {
    ++c10_count;
    c10_bytes += static_cast<int64_t>(bytes);
    return other_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return other_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    other_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* other_;
};

c10::Allocator* previous = nullptr;

}  // namespace

AllocationCount::AllocationCount() {
  new_count = new_bytes = new_largest_bytes = c10_count = c10_bytes = 0;
  previous = c10::GetCPUAllocator();
  static CountingAllocator allocator(previous);
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
  counting = true;
}

AllocationCount::~AllocationCount() {
  counting = false;
  c10::SetCPUAllocator(previous, /*priority=*/1);
}

Allocations AllocationCount::so_far() const {
  return {new_count, new_bytes, new_largest_bytes, c10_count, c10_bytes};
}

}  // namespace longshore::offload

// All forms: the sanitizers hold new and delete to belong together.
void* operator new(size_t bytes) { return longshore::offload::take(bytes, 0); }
void* operator new[](size_t bytes) { return longshore::offload::take(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return longshore::offload::take(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return longshore::offload::take(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return longshore::offload::try_take(bytes, 0);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return longshore::offload::try_take(bytes, 0);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
