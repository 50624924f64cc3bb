#include "longshore/data/rows/prefetched_batches.h"

#include <chrono>
#include <string>
#include <utility>

#include "longshore/base/error.h"

namespace longshore::data {

PrefetchedBatches::PrefetchedBatches(BatchSource source, int64_t first, int64_t end,
                                     std::function<void()> stop_waiting)
    : source_(std::move(source)),
      stop_waiting_(std::move(stop_waiting)),
      produced_(first),
      consumed_(first),
      end_(end) {
  thread_ = std::thread([this] { produce(); });
}

PrefetchedBatches::~PrefetchedBatches() {
  {
    std::lock_guard lock(mutex_);
    state_ = State::stopping;
  }
  changed_.notify_all();
  if (stop_waiting_) stop_waiting_();
  thread_.join();
}

void PrefetchedBatches::produce() {
  try {
    for (; produced_ < end_; ++produced_) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(
            lock, [&] { return state_ == State::stopping || std::ssize(ready_) < kReadyBatches; });
        if (state_ == State::stopping) return;
      }
      Batch batch = source_(produced_);
      {
        std::lock_guard lock(mutex_);
        ready_.push_back(std::move(batch));
      }
      changed_.notify_all();
    }
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

Batch PrefetchedBatches::next() {
  if (consumed_ >= end_)
    throw InternalError("batch " + std::to_string(consumed_) + " asked of a source that ends at " +
                        std::to_string(end_));
  std::unique_lock lock(mutex_);
  if (ready_.empty() && !failure_) {
    const auto start = std::chrono::steady_clock::now();
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    seconds_waited_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (ready_.empty()) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  ++consumed_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace longshore::data
