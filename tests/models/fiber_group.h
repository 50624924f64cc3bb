// Fibers that emulate a block of threads, as longshore/models/ops/kernels/thread_group.h describes
// it: each thread runs the whole body by itself, as on a GPU, and as far as it can before another
// one goes on. So a body that forgot a sync() reads what is not there yet, and one whose threads do
// not all come to it never ends: both show.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/models/serial_group.h"

namespace longshore::models {

// The threads of a block, one fiber each; whoever waits for others gives way.
class Fibers {
 public:
  Fibers(int threads, PlayOrder order) : threads_(threads), order_(order), fibers_(threads) {
    for (Fiber& fiber : fibers_) fiber.stack = std::make_unique<std::byte[]>(kStackBytes);
  }

  int threads() const { return threads_; }
  std::byte* scratch() { return scratch_.data(); }
  // What a thread gives to those that reduce with it, of all or of a part.
  std::byte* room(int thread, int count, int turn) {
    return fibers_[thread].room[2 * is_all(count) + turn].data();
  }

  // work(thread) by every thread. Throws where some wait for ever.
  template <class Work>
  void run(Work work, int64_t scratch_bytes) {
    scratch_.assign(scratch_bytes, std::byte{0xff});
    work_ = [](void* data, int thread) { (*static_cast<Work*>(data))(thread); };
    data_ = &work;
    for (int thread = 0; thread < threads_; ++thread) start(thread);
    while (std::ranges::any_of(fibers_, [](const Fiber& f) { return !f.is_done; })) {
      bool went_on = false;
      for (int i = 0; i < threads_; ++i) {
        const int thread = order_ == PlayOrder::ascending ? i : threads_ - 1 - i;
        if (fibers_[thread].is_done || !may_go_on(thread)) continue;
        went_on = true;
        running_ = thread;
        swapcontext(&main_, &fibers_[thread].context);
      }
      if (!went_on) throw std::logic_error("threads wait for others that do not come");
    }
  }

  // Until all of [first, first + count) have come as often as this one.
  void wait(int thread, int first, int count) {
    Fiber& fiber = fibers_[thread];
    ++fiber.waits[is_all(count)];
    fiber.first = first, fiber.count = count;
    swapcontext(&fiber.context, &main_);
  }

 private:
  static constexpr size_t kStackBytes = 256 << 10;

  struct Fiber {
    ucontext_t context;
    std::unique_ptr<std::byte[]> stack;
    std::array<std::array<std::byte, 64>, 4> room;
    bool is_done = true;
    std::array<int64_t, 2> waits{};  // of a part, of all
    int first = 0, count = 0;        // whom it waits for; nobody yet: 0
  };

  bool is_all(int count) const { return count == threads_; }

  // makecontext takes ints alone.
  static void enter(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<Fibers*>(uint64_t{high} << 32 | low);
    self->work_(self->data_, self->running_);
    self->fibers_[self->running_].is_done = true;
  }

  void start(int thread) {
    Fiber& fiber = fibers_[thread];
    fiber.is_done = false;
    fiber.waits = {};
    fiber.count = 0;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &main_;
    const auto self = reinterpret_cast<uint64_t>(this);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(enter), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }

  bool may_go_on(int thread) const {
    const Fiber& fiber = fibers_[thread];
    const int kind = is_all(fiber.count);
    return std::all_of(fibers_.begin() + fiber.first, fibers_.begin() + fiber.first + fiber.count,
                       [&](const Fiber& other) { return other.waits[kind] >= fiber.waits[kind]; });
  }

  int threads_;
  PlayOrder order_;
  std::vector<Fiber> fibers_;
  std::vector<std::byte> scratch_;
  void (*work_)(void*, int) = nullptr;
  void* data_ = nullptr;
  ucontext_t main_;
  int running_ = 0;
};

// What one thread knows of its group: the threads [first, first + count) of a block.
class FiberGroup {
 public:
  FiberGroup(Fibers& fibers, int thread, int first, int count)
      : fibers_(fibers), thread_(thread), first_(first), count_(count) {}

  int threads() const { return count_; }

  template <class F>
  void for_each(int64_t count, F f) const {
    for (int64_t i = thread_ - first_; i < count; i += count_) f(i);
  }

  // By the tree of SerialGroup, which each thread works out for itself.
  template <class T, class Add, class Combine>
  T reduce(int64_t count, T start, Add add, Combine combine) {
    static_assert(sizeof(T) <= 64);
    T value = start;
    for (int64_t i = thread_ - first_; i < count; i += count_) add(value, i);
    // Two places in turns: nobody is two reductions ahead of another.
    const int turn = turn_;
    turn_ ^= 1;
    std::memcpy(fibers_.room(thread_, count_, turn), &value, sizeof(T));
    sync();
    return SerialGroup(count_, PlayOrder::ascending)
        .reduce(
            count_, start,
            [&](T& mine, int64_t i) {
              const int thread = first_ + static_cast<int>(i);
              std::memcpy(&mine, fibers_.room(thread, count_, turn), sizeof(T));
            },
            combine);
  }

  template <class F>
  void once(F f) const {
    if (thread_ == first_) f();
  }

  void sync() { fibers_.wait(thread_, first_, count_); }

  template <int kLanes, class F>
  void split(F f) const {
    const int part = thread_ / kLanes;
    FiberGroup group(fibers_, thread_, part * kLanes, kLanes);
    f(group, part);
  }

  template <class T>
  T* scratch() const {
    return reinterpret_cast<T*>(fibers_.scratch());
  }

  template <class T>
  struct Own {
    T value;
    T& operator[](int64_t) { return value; }
  };
  template <class T>
  Own<T> own() const {
    return {};
  }

 private:
  Fibers& fibers_;
  int thread_, first_, count_;
  int turn_ = 0;
};

class FiberLauncher {
 public:
  FiberLauncher(int threads, PlayOrder order) : fibers_(std::make_unique<Fibers>(threads, order)) {}

  template <class Body>
  int threads() const {
    return fibers_->threads();
  }

  template <class Body>
  void operator()(const Body& body, int64_t blocks, int64_t scratch_bytes = 0) const {
    const int threads = fibers_->threads();
    for (int64_t i = 0; i < blocks; ++i)
      fibers_->run(
          [&](int thread) {
            FiberGroup block(*fibers_, thread, 0, threads);
            body(block, i);
          },
          scratch_bytes);
  }

  void zero(void* to, int64_t bytes) const { std::memset(to, 0, bytes); }
  void copy(void* to, const void* from, int64_t bytes) const { std::memcpy(to, from, bytes); }

 private:
  std::unique_ptr<Fibers> fibers_;
};

}  // namespace longshore::models
