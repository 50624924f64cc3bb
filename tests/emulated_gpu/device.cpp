#include "tests/emulated_gpu/device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace longshore::emulated {
namespace {

constexpr size_t kGranule = size_t{2} << 20;         // of the driver's allocations
constexpr size_t kContextBytes = size_t{500} << 20;  // what a process takes beside its own
constexpr size_t kFilledAtMost = size_t{4} << 20;
constexpr int kNan = 0xff;  // each byte of a NaN

void write_counts() {
  const char* path = std::getenv("LONGSHORE_EMULATED_COUNTS");
  if (!path) return;
  const Device::Counts counts = Device::get().counts();
  std::ofstream(path) << "{\"allocations\": " << counts.allocations
                      << ", \"waits\": " << counts.waits << "}\n";
}

}  // namespace

Device::Device(size_t total_bytes, WorkOrder order, unsigned seed)
    : total_bytes_(total_bytes),
      order_(order),
      random_(seed),
      used_bytes_(kContextBytes),
      default_stream_(draw_haste()) {}

Device& Device::get() {
  static Device* device = [] {
    const char* value = std::getenv("LONGSHORE_EMULATED_ORDER");
    const std::string order = value ? value : "late";
    constexpr size_t kBytes = size_t{80} << 30;
    if (order == "early") return new Device(kBytes, WorkOrder::early);
    if (order == "late") return new Device(kBytes, WorkOrder::late);
    if (order.starts_with("mixed"))
      return new Device(kBytes, WorkOrder::mixed,
                        static_cast<unsigned>(std::strtoul(order.c_str() + 5, nullptr, 10)));
    std::fprintf(stderr, "LONGSHORE_EMULATED_ORDER: found %s, expected early, late or mixedSEED\n",
                 order.c_str());
    std::exit(2);
  }();
  [[maybe_unused]] static const bool is_counted = std::atexit(write_counts) == 0;
  return *device;  // never destroyed: programs may call until the last
}

// --- memory

void* Device::allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  const size_t taken = (bytes + kGranule - 1) / kGranule * kGranule;
  if (taken > free_bytes()) return nullptr;
  void* memory = mmap(nullptr, taken, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, taken, MADV_NOHUGEPAGE);  // protecting costs by the page that is there
  if (bytes <= kFilledAtMost) std::memset(memory, kNan, bytes);
  used_bytes_ += taken;
  ++counts_.allocations;
  blocks_[static_cast<std::byte*>(memory)] = {taken, MemoryKind::device};
  if (accesses_ == 0) mprotect(memory, taken, PROT_NONE);
  return memory;
}

void* Device::pin(size_t bytes) {
  std::lock_guard lock(mutex_);
  constexpr size_t kPage = 4096;
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (!memory) return nullptr;
  if (bytes <= kFilledAtMost) std::memset(memory, kNan, bytes);
  ++counts_.allocations;
  blocks_[static_cast<std::byte*>(memory)] = {bytes, MemoryKind::pinned};
  return memory;
}

bool Device::register_host(void* memory, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (block_of(memory) != blocks_.end()) return false;
  if (bytes <= kFilledAtMost) std::memset(memory, kNan, bytes);
  ++counts_.allocations;
  blocks_[static_cast<std::byte*>(memory)] = {bytes, MemoryKind::pinned, true};
  return true;
}

bool Device::unregister_host(void* memory) {
  std::lock_guard lock(mutex_);
  drain_all();
  const auto found = blocks_.find(static_cast<std::byte*>(memory));
  if (found == blocks_.end() || !found->second.is_registered) return false;
  blocks_.erase(found);
  return true;
}

bool Device::free(void* memory) {
  std::lock_guard lock(mutex_);
  drain_all();
  const auto found = blocks_.find(static_cast<std::byte*>(memory));
  if (found == blocks_.end() || found->second.is_registered) return false;
  if (found->second.kind == MemoryKind::device) {
    used_bytes_ -= found->second.bytes;
    munmap(memory, found->second.bytes);
  } else {
    std::free(memory);
  }
  blocks_.erase(found);
  return true;
}

std::map<const std::byte*, Device::Block>::const_iterator Device::block_of(
    const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  const auto after = blocks_.upper_bound(byte);
  if (after == blocks_.begin()) return blocks_.end();
  const auto block = std::prev(after);
  return byte < block->first + block->second.bytes ? block : blocks_.end();
}

MemoryKind Device::kind(const void* address) const {
  const auto block = block_of(address);
  return block == blocks_.end() ? MemoryKind::pageable : block->second.kind;
}

bool Device::holds(const void* from, size_t bytes) const {
  const auto block = block_of(from);
  return block == blocks_.end() ||
         static_cast<const std::byte*>(from) + bytes <= block->first + block->second.bytes;
}

void Device::protect(bool may_touch) {
  for (const auto& [begin, block] : blocks_)
    if (block.kind == MemoryKind::device)
      mprotect(const_cast<std::byte*>(begin), block.bytes,
               may_touch ? PROT_READ | PROT_WRITE : PROT_NONE);
}

Device::Access::Access(Device& device) : device_(device) {
  device_.mutex_.lock();
  if (device_.accesses_++ == 0) device_.protect(true);
}

Device::Access::~Access() {
  if (--device_.accesses_ == 0) device_.protect(false);
  device_.mutex_.unlock();
}

// --- streams

Stream* Device::make_stream() {
  std::lock_guard lock(mutex_);
  return streams_.emplace_back(std::make_unique<Stream>(draw_haste())).get();
}

void Device::destroy(Stream* stream) {
  std::lock_guard lock(mutex_);
  drain(*stream);
  std::erase_if(streams_, [&](const auto& one) { return one.get() == stream; });
}

void Device::enqueue(Stream* stream, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  stream->items.push_back({.work = std::move(work)});
  go_on();
}

void Device::record(Stream* stream, Event& event) {
  std::lock_guard lock(mutex_);
  event.mark = std::make_shared<Mark>(Mark{stream});
  stream->items.push_back({.mark = event.mark});
  if (stream->items.size() == 1) do_first(*stream);
}

void Device::wait(Stream* stream, const Event& event) {
  std::lock_guard lock(mutex_);
  if (event.mark && !event.mark->is_done) stream->items.push_back({.wait = event.mark});
}

bool Device::is_blocked(const Stream& stream) const {
  return stream.items.front().wait && !stream.items.front().wait->is_done;
}

void Device::do_first(Stream& stream) {
  const Stream::Item item = std::move(stream.items.front());
  stream.items.pop_front();
  if (item.work) {
    const Access access(*this);
    item.work();
  } else if (item.mark) {
    item.mark->time = std::chrono::steady_clock::now();
    item.mark->is_done = true;
  }
}

double Device::draw_haste() {
  if (order_ == WorkOrder::early) return 1;
  if (order_ == WorkOrder::late) return 0;
  constexpr double kHastes[] = {0, 0.2, 1};
  return kHastes[random_() % std::size(kHastes)];
}

// Those streams that hurry, until what is left in them waits.
void Device::go_on() {
  std::vector<Stream*> hurried;
  auto choose = [&](Stream& stream) {
    if (std::uniform_real_distribution<>()(random_) < stream.haste) hurried.push_back(&stream);
  };
  choose(default_stream_);
  for (const auto& stream : streams_) choose(*stream);
  if (hurried.empty()) return;
  const Access access(*this);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (Stream* stream : hurried)
      for (; !stream->items.empty() && !is_blocked(*stream); goes_on = true) do_first(*stream);
  }
}

// --- the host waits

void Device::drain(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (stream.items.empty()) return;
  const Access access(*this);
  while (!stream.items.empty()) {
    if (is_blocked(stream)) drain_to(*stream.items.front().wait);
    do_first(stream);
  }
}

void Device::drain_to(const Mark& mark) {
  while (!mark.is_done) {
    if (is_blocked(*mark.stream)) drain_to(*mark.stream->items.front().wait);
    do_first(*mark.stream);
  }
}

void Device::drain_all() {
  for (const auto& stream : streams_) drain(*stream);
  drain(default_stream_);
}

void Device::finish(Stream* stream) {
  std::lock_guard lock(mutex_);
  ++counts_.waits;
  drain(*stream);
}

void Device::finish(const Mark& mark) {
  std::lock_guard lock(mutex_);
  ++counts_.waits;
  drain_to(mark);
}

void Device::finish_all() {
  std::lock_guard lock(mutex_);
  ++counts_.waits;
  drain_all();
}

bool Device::poll(Stream* stream) {
  std::lock_guard lock(mutex_);
  if (stream->items.empty()) return true;
  if (is_blocked(*stream)) drain_to(*stream->items.front().wait);
  do_first(*stream);
  return stream->items.empty();
}

bool Device::poll(const Mark& mark) {
  std::lock_guard lock(mutex_);
  if (!mark.is_done) poll(mark.stream);
  return mark.is_done;
}

}  // namespace longshore::emulated
