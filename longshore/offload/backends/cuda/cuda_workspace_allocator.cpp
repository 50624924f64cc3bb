#include "longshore/offload/backends/cuda/cuda_workspace_allocator.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/round_up.h"

namespace longshore::offload {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr int64_t kAlignment = 512;  // as the caching allocator aligns

// A stack of blocks; blocks given back out of order are taken off once they are on top.
class Stack {
 public:
  void begin(std::span<std::byte> memory) {
    memory_ = memory;
    undeclared_bytes_ = 0;
    active_ = true;
  }

  void abandon() {
    active_ = false;
    memory_ = {};
    blocks_.clear();
  }

  int64_t end() {
    int64_t held = 0;
    for (const Block& block : blocks_) held += block.free ? 0 : block.bytes;
    abandon();
    if (held > 0)
      throw InternalError("an op's library keeps " + std::to_string(held) +
                          " bytes of its workspace");
    return undeclared_bytes_;
  }

  void* take(size_t bytes) {
    if (!active_ || bytes == 0) return nullptr;
    int64_t size = round_up(static_cast<int64_t>(bytes), kAlignment);
    int64_t top = blocks_.empty() ? 0 : blocks_.back().offset + blocks_.back().bytes;
    if (top + size > static_cast<int64_t>(memory_.size())) {
      undeclared_bytes_ += size;
      return nullptr;
    }
    blocks_.push_back({top, size, false});
    return memory_.data() + top;
  }

  bool give_back(void* pointer) {
    auto* byte = static_cast<std::byte*>(pointer);
    if (byte < memory_.data() || byte >= memory_.data() + memory_.size()) return false;
    for (Block& block : blocks_)
      if (memory_.data() + block.offset == byte) block.free = true;
    while (!blocks_.empty() && blocks_.back().free) blocks_.pop_back();
    return true;
  }

 private:
  struct Block {
    int64_t offset, bytes;
    bool free;
  };
  std::span<std::byte> memory_;
  std::vector<Block> blocks_;
  int64_t undeclared_bytes_ = 0;
  bool active_ = false;
};

Stack& stack() {
  static Stack stack;
  return stack;
}

void delete_from_anywhere(void* pointer);

// Everything but allocation goes to the allocator that was there before.
class WorkspaceAllocator final : public caching::CUDAAllocator {
 public:
  WorkspaceAllocator() : before_(caching::get()) {}

  c10::DataPtr allocate(size_t bytes) override {
    c10::DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    if (void* memory = stack().take(bytes))
      return {memory, memory, delete_from_anywhere, c10::Device(c10::kCUDA, device)};
    return before_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return delete_from_anywhere; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    before_->copy_data(to, from, bytes);
  }
  void* raw_alloc(size_t bytes) override {
    void* memory = stack().take(bytes);
    return memory ? memory : before_->raw_alloc(bytes);
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    void* memory = stack().take(bytes);
    return memory ? memory : before_->raw_alloc_with_stream(bytes, stream);
  }
  void raw_delete(void* pointer) override {
    if (pointer && !stack().give_back(pointer)) before_->raw_delete(pointer);
  }
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override {
    if (pointer.get_deleter() != delete_from_anywhere) before_->recordStream(pointer, stream);
  }

  bool initialized() override { return before_->initialized(); }
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override { before_->emptyCache(pool); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return before_->getDeviceStats(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    before_->resetAccumulatedStats(device);
  }
  void resetPeakStats(c10::DeviceIndex device) override { before_->resetPeakStats(device); }
  void init(int devices) override { before_->init(devices); }
  double getMemoryFraction(c10::DeviceIndex device) override {
    return before_->getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    before_->setMemoryFraction(fraction, device);
  }
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override {
    return before_->getExpandableSegmentSizes(device);
  }
  void enable(bool value) override { before_->enable(value); }
  bool isEnabled() const override { return before_->isEnabled(); }
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override {
    before_->cacheInfo(device, largest);
  }
  void* getBaseAllocation(void* pointer, size_t* size) override {
    return before_->getBaseAllocation(pointer, size);
  }
  caching::SnapshotInfo snapshot(c10::MempoolId_t pool, bool traces) override {
    return before_->snapshot(pool, traces);
  }
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    before_->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    before_->endAllocateToPool(device, pool);
  }
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    before_->releasePool(device, pool);
  }
  caching::ShareableHandle shareIpcHandle(void* pointer) override {
    return before_->shareIpcHandle(pointer);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return before_->getIpcDevPtr(std::move(handle));
  }
  void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t entries,
                     caching::RecordContext when, bool clear,
                     const std::vector<std::string>& skip) override {
    before_->recordHistory(enabled, recorder, entries, when, clear, skip);
  }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    before_->attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
    before_->attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(c10::DeviceIndex from, c10::DeviceIndex to) override {
    before_->enablePeerAccess(from, to);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                          cudaStream_t stream, bool peer) override {
    return before_->memcpyAsync(to, to_device, from, from_device, bytes, stream, peer);
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                              c10::MempoolId_t pool) override {
    return before_->getCheckpointState(device, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) override {
    return before_->setCheckpointPoolState(device, std::move(state));
  }
  std::string name() override { return "longshore"; }

 private:
  caching::CUDAAllocator* before_;
};

WorkspaceAllocator& allocator() {
  static WorkspaceAllocator* ours = [] {
    auto* made = new WorkspaceAllocator;  // ATen may use it until the process ends
    caching::allocator.store(made);
    return made;
  }();
  return *ours;
}

void delete_from_anywhere(void* pointer) { allocator().raw_delete(pointer); }

}  // namespace

void begin_workspace(std::span<std::byte> workspace) {
  allocator();
  stack().begin(workspace);
}

int64_t end_workspace() { return stack().end(); }

void abandon_workspace() { stack().abandon(); }

}  // namespace longshore::offload
