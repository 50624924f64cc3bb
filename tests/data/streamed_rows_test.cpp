#include "longshore/data/rows/streamed_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <set>
#include <thread>

#include "longshore/base/error.h"
#include "longshore/data/rows/permutation.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

struct Place {
  int64_t shard, row;
  auto operator<=>(const Place&) const = default;
};

// Shards of rows that say which they are.
class Shards {
 public:
  explicit Shards(std::vector<int64_t> counts) : counts_(std::move(counts)) {}

  std::shared_ptr<StreamedRows> rows(int64_t window, uint64_t seed = 3) {
    StreamedRowsOptions options{.shards = {}, .window = window, .seed = seed};
    for (size_t i = 0; i < counts_.size(); ++i) options.shards.push_back(static_cast<int64_t>(i));
    return std::make_shared<StreamedRows>(
        [this](int64_t shard, const std::stop_token& stop) { return open(shard, stop); }, options);
  }

  int64_t count() const {
    int64_t sum = 0;
    for (int64_t count : counts_) sum += count;
    return sum;
  }

  // The rows of an epoch, shard by shard.
  std::vector<Place> in_order(const std::vector<int64_t>& order) const {
    std::vector<Place> places;
    for (int64_t shard : order)
      for (int64_t row = 0; row < counts_[static_cast<size_t>(shard)]; ++row)
        places.push_back({shard, row});
    return places;
  }

  std::multiset<int64_t> opened() {
    std::lock_guard lock(mutex_);
    return opened_;
  }

  std::set<int64_t> broken;   // shards that cannot be opened
  std::set<int64_t> changed;  // that have another identity than others think
  std::atomic<int64_t> open_now = 0, most_open = 0, closed = 0;
  bool waits = false;  // until it is told to stop

 private:
  class NumberedRows : public Rows {
   public:
    NumberedRows(Shards& shards, int64_t shard, int64_t count)
        : shards_(shards), shard_(shard), count_(count) {
      const int64_t now = ++shards_.open_now;
      for (int64_t most = shards_.most_open;
           most < now && !shards_.most_open.compare_exchange_weak(most, now);) {
      }
    }
    ~NumberedRows() override { --shards_.open_now; }
    NumberedRows(const NumberedRows&) = delete;
    NumberedRows& operator=(const NumberedRows&) = delete;

    int64_t count() const override { return count_; }
    void read(int64_t index, const Row& into) const override {
      ASSERT_LT(index, count_);
      const std::vector sequence = {static_cast<int32_t>(shard_), static_cast<int32_t>(index), 0};
      into.put(0, 1, sequence, std::vector<uint8_t>(3, 1));
    }

   private:
    Shards& shards_;
    int64_t shard_, count_;
  };

  OpenedShard open(int64_t shard, const std::stop_token& stop) {
    {
      std::lock_guard lock(mutex_);
      opened_.insert(shard);
    }
    while (waits) {
      if (stop.stop_requested()) throw Error("told to stop");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::string name = "shard " + std::to_string(shard);
    if (broken.contains(shard)) throw DataError(name + ": line 7 is broken");
    const int64_t count = counts_[static_cast<size_t>(shard)];
    OpenedShard opened{.name = name,
                       .rows = {},
                       .identity = changed.contains(shard) ? "other" : "identity " + name,
                       .when_closed = [this] { ++closed; }};
    if (count > 0) opened.rows = std::make_shared<NumberedRows>(*this, shard, count);
    return opened;
  }

  std::vector<int64_t> counts_;
  std::mutex mutex_;
  std::multiset<int64_t> opened_;
};

Place read(const StreamedRows& rows, int64_t place) {
  Batch batch = padding({1, 2});
  rows.read(place, Row(batch, 0));
  return {batch[kTokens][0], batch[kTokens][1]};
}

std::vector<Place> read(const StreamedRows& rows, int64_t first, int64_t count) {
  std::vector<Place> places;
  for (int64_t i = 0; i < count; ++i) places.push_back(read(rows, first + i));
  return places;
}

// What the header promises of each epoch, shard and window.
TEST(StreamedRows, AreShuffledWithinWindowsOfShardsInTurn) {
  Shards shards({5, 0, 13, 1, 40});
  const int64_t count = shards.count();
  for (int64_t window : {2, 7, 16, 59, 1'000'000'000}) {
    const auto rows = shards.rows(window);
    std::set<std::vector<int64_t>> orders_of_shards;
    std::set<std::vector<Place>> orders;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      const Permutation permutation(5, 3, static_cast<uint64_t>(epoch),
                                    {.use = RandomUse::shard_order});
      std::vector<int64_t> order;
      for (uint64_t i = 0; i < 5; ++i) order.push_back(static_cast<int64_t>(permutation(i)));
      orders_of_shards.insert(order);
      const std::vector<Place> in_order = shards.in_order(order);
      const std::vector<Place> found = read(*rows, epoch * count, count);
      orders.insert(found);
      EXPECT_NE(found, in_order) << window;
      for (int64_t begin = 0; begin < count; begin += window) {
        const int64_t end = std::min(begin + window, count);
        const std::set<Place> expected(in_order.begin() + begin, in_order.begin() + end);
        const std::set<Place> read(found.begin() + begin, found.begin() + end);
        EXPECT_EQ(read, expected) << window << " " << epoch << " " << begin;
      }
    }
    EXPECT_GT(orders_of_shards.size(), 1u);
    EXPECT_EQ(orders.size(), 3u);
    EXPECT_NE(read(*shards.rows(window, 4), 0, count), *orders.begin());
  }
  EXPECT_NE(read(*shards.rows(7, 4), 0, count), read(*shards.rows(7, 3), 0, count));
}

TEST(StreamedRows, OfWindowsOfOneAreInOrder) {
  Shards shards({5, 0, 13, 1});
  const auto rows = shards.rows(1);
  const std::vector<Place> in_order = shards.in_order({0, 1, 2, 3});
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(read(*rows, epoch * shards.count(), shards.count()), in_order);
}

// A place far away, then near ones, from several threads at a time.
TEST(StreamedRows, FollowFromTheirPlacesAlone) {
  Shards shards({5, 3, 13, 1, 8});
  const auto rows = shards.rows(4), others = shards.rows(4);
  const std::vector<Place> expected = read(*rows, 0, 150);
  for (int64_t place : {149, 0, 60, 29, 30, 31, 5}) {
    const auto fresh = shards.rows(4);
    EXPECT_EQ(read(*fresh, place), expected[static_cast<size_t>(place)]) << place;
  }
  std::vector<Place> found(150);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (size_t i = t; i < found.size(); i += 4)
          found[i] = read(*others, static_cast<int64_t>(i));
      });
  }
  EXPECT_EQ(found, expected);
}

// The next shard is opened ahead, and what is wrong with those behind it is not known yet.
TEST(StreamedRows, BeginBeforeAllIsOpened) {
  Shards shards({10, 10, 10, 10, 10});
  shards.broken = {2};
  {
    const auto rows = shards.rows(1);
    read(*rows, 0, 10);
    EXPECT_FALSE(shards.opened().contains(2));
    read(*rows, 10, 10);
    EXPECT_EQ(message_of<DataError>([&] { read(*rows, 20); }), "shard 2: line 7 is broken");
    EXPECT_EQ(message_of<DataError>([&] { read(*rows, 20); }), "shard 2: line 7 is broken");
    EXPECT_EQ(read(*rows, 19), (Place{1, 9}));
  }
  EXPECT_FALSE(shards.opened().contains(4));
}

// Without opening what was passed.
TEST(StreamedRows, GoOnFromRecords) {
  Shards shards({10, 4, 0, 12, 9, 7});
  const int64_t count = shards.count();
  for (int64_t window : {1, 5}) {
    const std::vector<Place> expected = read(*shards.rows(window), 0, 3 * count);
    for (int64_t place : {int64_t{30}, count + 7, 2 * count + 30}) {
      std::vector<ShardRecord> records;
      {
        const auto rows = shards.rows(window);
        read(*rows, 0, place);
        records = rows->records();
      }
      const std::multiset<int64_t> before = shards.opened();
      const auto rows = shards.rows(window);
      rows->restore(records);
      rows->restore({{.shard = 99, .rows = 1, .identity = "nobody's"}});
      EXPECT_EQ(read(*rows, place), expected[static_cast<size_t>(place)]);
      rows->stop();
      // The window has two shards at most, and as many are opened ahead.
      EXPECT_LE(shards.opened().size() - before.size(), 4u) << window << " " << place;
      const auto further = shards.rows(window);
      further->restore(records);
      for (int64_t i = place; i < 3 * count; ++i)
        ASSERT_EQ(read(*further, i), expected[static_cast<size_t>(i)]) << window << " " << i;
      EXPECT_EQ(further->records().size(), 6u);
    }
  }
}

TEST(StreamedRows, AreOfShardsThatStayAsTheyWere) {
  Shards shards({3, 3});
  const auto rows = shards.rows(1);
  rows->restore({{.shard = 1, .rows = 3, .identity = "identity shard 1"}});
  shards.changed = {1};
  read(*rows, 0, 3);
  EXPECT_EQ(message_of<DataError>([&] { read(*rows, 3); }),
            "shard 1: changed since the run first read it: found 3 rows with the hash other, "
            "expected 3 with identity shard 1");
  const auto others = shards.rows(1);
  others->restore({{.shard = 0, .rows = 4, .identity = "identity shard 0"}});
  EXPECT_THAT(message_of<DataError>([&] { read(*others, 0); }),
              HasSubstr("shard 0: changed since the run first read it: found 3 rows"));
}

// However many shards there are: those of two windows, as many ahead, and one.
TEST(StreamedRows, HoldFewShardsAtATime) {
  for (int64_t shard_count : {20, 400}) {
    Shards shards(std::vector<int64_t>(static_cast<size_t>(shard_count), 3));
    {
      const auto rows = shards.rows(4);
      read(*rows, 0, 2 * shards.count());
      EXPECT_LE(shards.open_now, 10);
    }
    EXPECT_LE(shards.most_open, 13);
    EXPECT_EQ(shards.open_now, 0);
    EXPECT_GE(shards.closed, 2 * shard_count - 13);
    // Each once an epoch: nothing that is still needed was closed.
    EXPECT_LE(std::ssize(shards.opened()), 2 * shard_count + 10);
  }
}

TEST(StreamedRows, NobodyWaitsForAShardAtTheEnd) {
  Shards shards({3, 3});
  shards.waits = true;
  const auto rows = shards.rows(1);
  std::jthread stopping([&] {
    while (shards.opened().empty()) std::this_thread::yield();
    rows->stop();
  });
  EXPECT_EQ(message_of<Error>([&] { read(*rows, 0); }), "told to stop");
}

TEST(StreamedRows, NeedARow) {
  Shards shards({0, 0});
  EXPECT_EQ(message_of<DataError>([&] { read(*shards.rows(4), 0); }),
            "found nothing to train on in any of 2 files");
  EXPECT_THROW(shards.rows(0), InternalError);
  EXPECT_THROW(Shards({}).rows(1), InternalError);
}

}  // namespace
}  // namespace longshore::data
