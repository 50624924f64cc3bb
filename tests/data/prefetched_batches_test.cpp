#include "longshore/data/rows/prefetched_batches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "longshore/base/error.h"

namespace longshore::data {
namespace {

using namespace std::chrono_literals;

Batch numbered(int64_t index) {
  Batch batch;
  batch.total_weights = index;
  return batch;
}

TEST(PrefetchedBatches, AreTheSourcesBatches) {
  const BatchSource source = synthetic_batches({2, 8}, 100, 1);
  PrefetchedBatches prefetched(source, 5, 30);
  for (int64_t m = 5; m < 30; ++m) {
    const Batch batch = prefetched.next();
    const Batch direct = source(m);
    EXPECT_EQ(batch["tokens"], direct["tokens"]) << m;
    EXPECT_EQ(batch["targets"], direct["targets"]) << m;
  }
  EXPECT_THROW(prefetched.next(), InternalError);
}

TEST(PrefetchedBatches, RunAheadButNotFar) {
  std::atomic<int64_t> made = 0;
  auto source = [&](int64_t index) {
    ++made;
    return numbered(index);
  };
  PrefetchedBatches prefetched(source, 0, 1000);
  for (int64_t taken = 0; taken < 20; ++taken) {
    // Without anybody asking, the thread makes just what may stand ready.
    const int64_t expected = taken + PrefetchedBatches::kReadyBatches;
    for (int i = 0; i < 2000 && made < expected; ++i) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(made, expected);
    EXPECT_EQ(prefetched.next().total_weights, taken);
  }
}

TEST(PrefetchedBatches, CountTheTimeWaited) {
  auto slow = [](int64_t index) {
    std::this_thread::sleep_for(20ms);
    return numbered(index);
  };
  PrefetchedBatches waiting(slow, 0, 5);
  for (int i = 0; i < 5; ++i) waiting.next();
  EXPECT_GE(waiting.seconds_waited(), 0.08);

  std::atomic<int> begun = 0;
  auto counting = [&](int64_t index) {
    ++begun;
    return numbered(index);
  };
  PrefetchedBatches ready(counting, 0, 2);
  while (begun < 2) std::this_thread::sleep_for(1ms);  // the second is begun: the first is ready
  ready.next();
  EXPECT_EQ(ready.seconds_waited(), 0);
}

TEST(PrefetchedBatches, PassOnWhatTheSourceThrowsInItsPlace) {
  std::atomic<bool> failed = false;
  auto failing = [&](int64_t index) {
    if (index == 1) {
      failed = true;
      throw DataError("batch one");
    }
    return numbered(index);
  };
  PrefetchedBatches prefetched(failing, 0, 10);
  while (!failed) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(prefetched.next().total_weights, 0);  // made before the failure, so still good
  for (int i = 0; i < 2; ++i) {
    try {
      prefetched.next();
      FAIL() << "nothing thrown";
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "batch one");
    }
  }
}

TEST(PrefetchedBatches, EndWhereverTheyAreLeft) {
  for (int taken = 0; taken < 4; ++taken) {
    PrefetchedBatches prefetched(numbered, 0, 1'000'000);
    for (int i = 0; i < taken; ++i) prefetched.next();
  }
  PrefetchedBatches none(numbered, 0, 0);
  EXPECT_THROW(none.next(), InternalError);
}

}  // namespace
}  // namespace longshore::data
