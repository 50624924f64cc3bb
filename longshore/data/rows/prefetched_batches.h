// PrefetchedBatches makes batches ready in a thread of its own while the step before computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "longshore/data/rows/batches.h"

namespace longshore::data {

// Gives source(first), source(first + 1), ... up to but without source(end), in order. At most
// kReadyBatches stand ready, the one that is being made among them, so memory stays bounded however
// slow the consumer is.
class PrefetchedBatches {
 public:
  static constexpr int64_t kReadyBatches = 2;

  // `stop_waiting` is called when this is left: a batch that is being made may then fail, rather
  // than be waited for.
  PrefetchedBatches(BatchSource source, int64_t first, int64_t end,
                    std::function<void()> stop_waiting = {});
  ~PrefetchedBatches();
  PrefetchedBatches(const PrefetchedBatches&) = delete;
  PrefetchedBatches& operator=(const PrefetchedBatches&) = delete;

  // The next batch. What the source threw while making it is thrown here, and again by every later
  // call. A call beyond the last batch is an InternalError.
  Batch next();

  // Time that next() has spent waiting for the thread, since the beginning.
  double seconds_waited() const { return seconds_waited_; }

 private:
  void produce();

  BatchSource source_;
  std::function<void()> stop_waiting_;
  int64_t produced_;  // index of the batch that the thread makes next
  int64_t consumed_;  // index of the batch that next() gives next
  const int64_t end_;
  double seconds_waited_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  enum class State { running, stopping } state_ = State::running;
  std::thread thread_;
};

}  // namespace longshore::data
