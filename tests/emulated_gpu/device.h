// A GPU that is emulated on the CPU: its memory is the host's, which only work on the device may
// touch; its streams are queues.
//
// What waits for nothing may run at any time on a GPU, so when the streams' work is done here is a
// choice. Results must not depend on it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace longshore::emulated {

enum class WorkOrder {
  early,  // at once
  late,   // only when the host waits for it
  mixed,  // of some streams at once, of some late, of others now and then
};

enum class MemoryKind { pageable, pinned, device };

class Stream;

// A place in a stream's order: done once all work before it is.
struct Mark {
  Stream* stream;
  bool is_done = false;
  std::chrono::steady_clock::time_point time{};
};

class Stream {
 public:
  // One of the three.
  struct Item {
    std::function<void()> work;
    std::shared_ptr<Mark> mark;  // is done here
    std::shared_ptr<Mark> wait;  // must be done, in another stream
  };
  explicit Stream(double haste) : haste(haste) {}

  const double haste;  // how likely it goes on whenever work comes
  std::deque<Item> items;
};

struct Event {
  std::shared_ptr<Mark> mark;  // of the last record; null before
};

class Device {
 public:
  Device(size_t total_bytes, WorkOrder order, unsigned seed = 0);
  // As the environment says: LONGSHORE_EMULATED_ORDER is early, late (as is otherwise) or
  // mixedSEED.
  static Device& get();

  // --- memory. Null where there is not as much; it begins as NaNs, where it is not large.
  void* allocate(size_t bytes);
  void* pin(size_t bytes);
  // Memory that the host has, as pinned memory from now on. False where some of it is that already.
  bool register_host(void* memory, size_t bytes);
  // After all work. False where it was not registered.
  bool unregister_host(void* memory);
  // After all work. False where it was not allocated.
  bool free(void* memory);
  MemoryKind kind(const void* address) const;
  // False where [from, from + bytes) begins in an allocation and ends beyond it.
  bool holds(const void* from, size_t bytes) const;
  size_t total_bytes() const { return total_bytes_; }
  size_t free_bytes() const { return total_bytes_ - used_bytes_; }

  // --- streams
  Stream* default_stream() { return &default_stream_; }
  Stream* make_stream();
  void destroy(Stream* stream);
  void enqueue(Stream* stream, std::function<void()> work);
  void record(Stream* stream, Event& event);
  void wait(Stream* stream, const Event& event);
  // Does all that is in it, for work that comes next and is not enqueued.
  void drain(Stream& stream);

  // --- the host waits
  void finish(Stream* stream);
  void finish(const Mark& mark);
  void finish_all();
  // Whether nothing is left; if something is, some of it is done.
  bool poll(Stream* stream);
  bool poll(const Mark& mark);

  // While one lives, device memory may be touched.
  class Access {
   public:
    explicit Access(Device& device);
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    Device& device_;
  };

  struct Counts {
    int64_t allocations, waits;
  };
  Counts counts() const { return counts_; }

 private:
  struct Block {
    size_t bytes;
    MemoryKind kind;
    bool is_registered = false;
  };

  // The block that holds the address, or else the end.
  std::map<const std::byte*, Block>::const_iterator block_of(const void* address) const;
  void protect(bool may_touch);
  double draw_haste();
  bool is_blocked(const Stream& stream) const;
  void do_first(Stream& stream);
  void go_on();
  void drain_to(const Mark& mark);
  void drain_all();

  const size_t total_bytes_;
  const WorkOrder order_;
  std::mt19937 random_;
  std::recursive_mutex mutex_;
  std::map<const std::byte*, Block> blocks_;
  size_t used_bytes_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Stream default_stream_;
  int accesses_ = 0;
  Counts counts_{};
};

}  // namespace longshore::emulated
