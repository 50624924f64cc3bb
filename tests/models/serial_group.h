// A SerialGroup is one thread that emulates a block of threads, as
// longshore/models/ops/kernels/thread_group.h describes it: every phase of a body is run for one
// thread after the other, with the very shares and the tree of sums that a GPU's threads have.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "longshore/models/ops/kernels/thread_group.h"

namespace longshore::models {

// Which thread goes first. No result may depend on it.
enum class PlayOrder { ascending, descending };

class SerialGroup {
 public:
  SerialGroup(int threads, PlayOrder order, std::byte* scratch = nullptr)
      : threads_(threads), order_(order), scratch_(scratch) {}

  int threads() const { return threads_; }

  template <class F>
  void for_each(int64_t count, F f) const {
    each_thread([&](int thread) {
      for (int64_t i = thread; i < count; i += threads_) f(i);
    });
  }

  template <class T, class Add, class Combine>
  T reduce(int64_t count, T start, Add add, Combine combine) const {
    std::vector<T> values(threads_, start);
    each_thread([&](int thread) {
      for (int64_t i = thread; i < count; i += threads_) add(values[thread], i);
    });
    // Each warp by halves, then the warps in order.
    const int lanes = std::min(threads_, 32);
    for (int warp = 0; warp < threads_; warp += lanes)
      for (int distance = lanes / 2; distance > 0; distance /= 2)
        for (int lane = 0; lane < distance; ++lane)
          combine(values[warp + lane], values[warp + lane + distance]);
    for (int warp = lanes; warp < threads_; warp += lanes) combine(values[0], values[warp]);
    return values[0];
  }

  template <class F>
  void once(F f) const {
    f();
  }

  void sync() const {}

  template <int kLanes, class F>
  void split(F f) const {
    const int parts = threads_ / kLanes;
    for (int i = 0; i < parts; ++i) {
      SerialGroup part(kLanes, order_);
      f(part, order_ == PlayOrder::ascending ? i : parts - 1 - i);
    }
  }

  template <class T>
  T* scratch() const {
    return reinterpret_cast<T*>(scratch_);
  }

  template <class T>
  std::vector<T> own() const {
    return std::vector<T>(threads_);
  }

 private:
  template <class F>
  void each_thread(F f) const {
    for (int i = 0; i < threads_; ++i) f(order_ == PlayOrder::ascending ? i : threads_ - 1 - i);
  }

  int threads_;
  PlayOrder order_;
  std::byte* scratch_;
};

// Runs a launch's blocks one after the other, each of as many threads as this says. Their scratch
// memory is full of NaNs at first.
class SerialLauncher {
 public:
  explicit SerialLauncher(int threads, PlayOrder order = PlayOrder::ascending)
      : threads_(threads), order_(order) {}

  template <class Body>
  int threads() const {
    return threads_;
  }

  template <class Body>
  void operator()(const Body& body, int64_t blocks, int64_t scratch_bytes = 0) const {
    std::vector<std::byte> scratch(scratch_bytes);
    for (int64_t i = 0; i < blocks; ++i) {
      std::ranges::fill(scratch, std::byte{0xff});
      SerialGroup block(threads_, order_, scratch.data());
      body(block, order_ == PlayOrder::ascending ? i : blocks - 1 - i);
    }
  }

  void zero(void* to, int64_t bytes) const { std::memset(to, 0, bytes); }
  void copy(void* to, const void* from, int64_t bytes) const { std::memcpy(to, from, bytes); }

 private:
  int threads_;
  PlayOrder order_;
};

}  // namespace longshore::models
