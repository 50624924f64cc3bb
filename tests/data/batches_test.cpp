#include "longshore/data/rows/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/data/rows/streamed_rows.h"
#include "longshore/data/rows/window_rows.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore {

// Of batches: to the bit.
static bool operator==(bfloat16 a, bfloat16 b) { return a.bits == b.bits; }

namespace data {
namespace {

using testing::HasSubstr;

// Tokens 0, 1, 2, ...: a window shows where it was cut.
std::shared_ptr<const TokenFile> counting_file(const TemporaryFolder& folder, int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  TokenFileWriter writer(folder / "counting.tokens", 1 << 20, 0);
  if (count > 0) writer.append(tokens);
  writer.finish();
  return std::make_shared<TokenFile>(folder / "counting.tokens");
}

using Remainder = WindowRows::Remainder;

BatchSource shuffled_windows(const std::shared_ptr<const TokenFile>& file, BatchShape shape,
                             uint64_t seed, Rank rank = {}) {
  auto rows = std::make_shared<const WindowRows>(file, shape.length, Remainder::dropped);
  return shuffled_batches({{std::move(rows), std::nullopt}}, shape, seed, rank);
}

std::shared_ptr<const Rows> all_windows(const std::shared_ptr<const TokenFile>& file,
                                        int64_t length) {
  return std::make_shared<const WindowRows>(file, length, Remainder::padded);
}

bool equal(const Batch& a, const Batch& b) {
  return a.inputs == b.inputs && a.total_weights == b.total_weights;
}

// The rows of all, in order.
Batch joined(const std::vector<Batch>& batches) {
  Batch all;
  auto append = [](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const Batch& batch : batches) {
    append(all["tokens"], batch["tokens"]);
    append(all["targets"], batch["targets"]);
    append(all["positions"], batch["positions"]);
    append(all["segments"], batch["segments"]);
    all.total_weights += batch.total_weights;
  }
  return all;
}

// What every source must keep, whatever it draws from.
void expect_pure(const std::function<BatchSource(BatchShape, Rank)>& make, int64_t count) {
  const BatchShape shape{.rows = 3, .length = 5};
  const BatchSource source = make(shape, {});
  std::vector<Batch> forwards;
  for (int64_t m = 0; m < count; ++m) forwards.push_back(source(m));
  const BatchSource another = make(shape, {});
  for (int64_t m = count - 1; m >= 0; --m) {
    EXPECT_TRUE(equal(another(m), forwards[m])) << m;
    EXPECT_TRUE(equal(source(m), forwards[m])) << m;
  }
  for (const Batch& batch : forwards) {
    ASSERT_EQ(batch["tokens"].size(), 15u);
    ASSERT_EQ(batch["targets"].size(), 15u);
    ASSERT_EQ(batch["positions"].size(), 15u);
    ASSERT_EQ(batch["segments"].size(), 15u);
    EXPECT_EQ(batch.total_weights,
              std::count_if(batch["targets"].begin(), batch["targets"].end(),
                            [](int32_t target) { return target != kIgnoredTarget; }));
    for (int i = 0; i < 15; ++i) {
      EXPECT_EQ(batch["positions"][i], i % 5);
      if (i % 5 < 4 && batch["targets"][i + 1] != kIgnoredTarget) {
        EXPECT_EQ(batch["targets"][i], batch["tokens"][i + 1]);
      }
    }
  }
  // Micro-batches hold the rows of one batch as large as all of them.
  const Batch large = make({.rows = 3 * count, .length = 5}, {})(0);
  EXPECT_TRUE(equal(joined(forwards), large));
  // So do ranks, one after the other.
  for (int64_t world_size : {2, 3, 10}) {
    std::vector<BatchSource> ranks;
    for (int64_t n = 0; n < world_size; ++n)
      ranks.push_back(make(shape, {.rank = n, .world_size = world_size}));
    const BatchSource whole = make({.rows = 3 * world_size, .length = 5}, {});
    for (int64_t m = (count - 1) / world_size; m >= 0; --m) {
      std::vector<Batch> parts;
      for (const BatchSource& rank : ranks) parts.push_back(rank(m));
      EXPECT_TRUE(equal(joined(parts), whole(m))) << world_size << " " << m;
    }
    EXPECT_THROW(make(shape, {.rank = world_size, .world_size = world_size}), InternalError);
  }
  EXPECT_THROW(source(-1), InternalError);
  EXPECT_THROW(make(shape, {.rank = -1}), InternalError);
}

TEST(SyntheticBatches, ArePureFunctionsOfTheIndex) {
  expect_pure([](BatchShape shape, Rank rank) { return synthetic_batches(shape, 1000, 7, rank); },
              20);
}

TEST(SyntheticBatches, DifferBySeedAndRow) {
  const BatchShape shape{.rows = 4, .length = 9};
  std::set<std::vector<int32_t>> rows;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
    for (int64_t m : {int64_t{0}, int64_t{1}, int64_t{1} << 40}) {
      const Batch batch = synthetic_batches(shape, 1000, seed)(m);
      for (int row = 0; row < 4; ++row)
        rows.emplace(batch["tokens"].begin() + row * 9, batch["tokens"].begin() + (row + 1) * 9);
    }
  EXPECT_EQ(rows.size(), 3u * 3 * 4);
}

TEST(SyntheticBatches, AreEvenOverTheVocabulary) {
  for (int32_t vocab_size : {1, 2, 257}) {
    const Batch batch = synthetic_batches({100, 1000}, vocab_size, 3)(5);
    std::vector<int> counts(static_cast<size_t>(vocab_size));
    for (int32_t token : batch["tokens"]) {
      ASSERT_GE(token, 0);
      ASSERT_LT(token, vocab_size);
      ++counts[static_cast<size_t>(token)];
    }
    const double expected = 100'000.0 / vocab_size;
    for (int count : counts) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected));
  }
}

TEST(ShuffledBatches, ArePureFunctionsOfTheIndex) {
  TemporaryFolder folder;
  const auto file = counting_file(folder, 103);  // 20 windows of 5: the batches cross epochs
  expect_pure([&](BatchShape shape, Rank rank) { return shuffled_windows(file, shape, 7, rank); },
              20);
}

TEST(ShuffledBatches, EveryEpochVisitsEachWindowOnceInAnOrderOfItsOwn) {
  TemporaryFolder folder;
  const int length = 4;
  for (int32_t token_count : {5, 8, 9, 41, 44, 401}) {
    const auto file = counting_file(folder, token_count);
    const int window_count = (token_count - 1) / length;
    for (int64_t rows : {1, 3, 8}) {
      const BatchSource source = shuffled_windows(file, {.rows = rows, .length = length}, 5);
      std::vector<int32_t> starts;
      for (int64_t m = 0; static_cast<int>(starts.size()) < 3 * window_count; ++m) {
        const Batch batch = source(m);
        EXPECT_EQ(batch.total_weights, rows * length);
        for (int64_t row = 0; row < rows; ++row) {
          const int32_t start = batch["tokens"][row * length];
          for (int t = 0; t < length; ++t) {
            EXPECT_EQ(batch["tokens"][row * length + t], start + t);
            EXPECT_EQ(batch["targets"][row * length + t], start + t + 1);
          }
          starts.push_back(start);
        }
      }
      std::set<std::vector<int32_t>> orders;
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<int32_t> order(starts.begin() + epoch * window_count,
                                   starts.begin() + (epoch + 1) * window_count);
        orders.insert(order);
        std::sort(order.begin(), order.end());
        for (int w = 0; w < window_count; ++w) ASSERT_EQ(order[w], w * length);
      }
      if (window_count >= 10) {
        EXPECT_EQ(orders.size(), 3u);
      }
    }
  }
}

TEST(ShuffledBatches, SeedsGiveOtherOrders) {
  TemporaryFolder folder;
  const auto file = counting_file(folder, 1001);
  const BatchShape shape{.rows = 50, .length = 10};
  EXPECT_NE(shuffled_windows(file, shape, 1)(0)["tokens"],
            shuffled_windows(file, shape, 2)(0)["tokens"]);
}

TEST(ShuffledBatches, RefuseAFileWithoutAWholeWindow) {
  TemporaryFolder folder;
  for (int32_t count : {0, 1, 5}) {
    const std::string message = message_of<DataError>(
        [&] { shuffled_windows(counting_file(folder, count), {.rows = 1, .length = 5}, 0); });
    EXPECT_THAT(message, HasSubstr("found " + plural(count, "token") + "; one sequence takes 6"));
  }
  EXPECT_NO_THROW(shuffled_windows(counting_file(folder, 6), {.rows = 1, .length = 5}, 0)(3));
}

TEST(SequentialBatches, ArePureFunctionsOfTheIndex) {
  TemporaryFolder folder;
  const auto file = counting_file(folder, 5 * 3 * 20 - 3);
  expect_pure(
      [&](BatchShape shape, Rank rank) {
        return sequential_batches(all_windows(file, shape.length), shape, rank);
      },
      20);
}

TEST(SequentialBatches, PredictEveryTokenButTheFirstOnce) {
  TemporaryFolder folder;
  for (int32_t token_count : {2, 3, 12, 13, 14, 24, 25, 26, 100, 121}) {
    const auto file = counting_file(folder, token_count);
    for (int64_t rows : {1, 2, 3})
      for (int64_t length : {1, 4, 200}) {
        const BatchShape shape{.rows = rows, .length = length};
        const std::shared_ptr<const Rows> rows_of_all = all_windows(file, length);
        const BatchSource source = sequential_batches(rows_of_all, shape);
        std::vector<int32_t> targets;
        int64_t total_weights = 0;
        for (int64_t m = 0; m < sequential_batch_count(*rows_of_all, shape); ++m) {
          const Batch batch = source(m);
          EXPECT_GT(batch.total_weights, 0);
          total_weights += batch.total_weights;
          for (size_t i = 0; i < batch["targets"].size(); ++i) {
            if (batch["targets"][i] == kIgnoredTarget) {
              EXPECT_EQ(batch["tokens"][i], 0);
              EXPECT_EQ(batch["segments"][i], kPadding);
            } else {
              EXPECT_EQ(batch["tokens"][i], batch["targets"][i] - 1);
              targets.push_back(batch["targets"][i]);
            }
          }
        }
        std::vector<int32_t> expected(static_cast<size_t>(token_count) - 1);
        std::iota(expected.begin(), expected.end(), 1);
        EXPECT_EQ(targets, expected) << token_count << " " << rows << " " << length;
        EXPECT_EQ(total_weights, token_count - 1);
        EXPECT_THROW(source(sequential_batch_count(*rows_of_all, shape)), InternalError);
      }
  }
}

TEST(SequentialBatches, RefuseAFileWithNothingToPredict) {
  TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { all_windows(counting_file(folder, 1), 5); }),
              HasSubstr("found 1 token; one sequence takes at least 2"));
}

// Rows that say which they are.
class NumberedRows : public Rows {
 public:
  NumberedRows(int32_t source, int64_t count) : source_(source), count_(count) {}
  int64_t count() const override { return count_; }
  void read(int64_t index, const Row& into) const override {
    const std::vector<int32_t> sequence = {source_, static_cast<int32_t>(index), 0};
    into.put(0, 1, sequence, std::vector<uint8_t>(3, 1));
  }

 private:
  int32_t source_;
  int64_t count_;
};

std::vector<WeightedRows> sources(const std::vector<int64_t>& counts,
                                  const std::vector<double>& weights) {
  std::vector<WeightedRows> sources;
  for (size_t i = 0; i < counts.size(); ++i)
    sources.push_back({std::make_shared<NumberedRows>(static_cast<int32_t>(i), counts[i]),
                       weights.empty() ? std::nullopt : std::optional(weights[i])});
  return sources;
}

TEST(ShuffledBatches, OfSeveralSourcesArePureFunctionsOfTheIndex) {
  TemporaryFolder folder;
  const auto file = counting_file(folder, 103);
  expect_pure(
      [&](BatchShape shape, Rank rank) {
        auto windows = std::make_shared<WindowRows>(file, shape.length, Remainder::dropped);
        return shuffled_batches({{windows, 0.3}, {windows, 2.0}}, shape, 7, rank);
      },
      20);
}

// Of two entries, one of them with several files, over epochs of both.
TEST(MixedBatches, OfStreamsArePureFunctionsOfTheIndex) {
  TemporaryFolder folder;
  std::vector<std::shared_ptr<const TokenFile>> files;
  for (int32_t tokens : {31, 6, 53}) files.push_back(counting_file(folder, tokens));
  expect_pure(
      [&](BatchShape shape, Rank rank) {
        auto stream = [&](std::vector<int64_t> shards) {
          auto open = [files, length = shape.length](int64_t shard, const std::stop_token&) {
            const auto& file = files[static_cast<size_t>(shard)];
            return OpenedShard{
                .name = {},
                .rows = std::make_shared<const WindowRows>(file, length, Remainder::dropped),
                .identity = file->identity()};
          };
          return std::make_shared<const StreamedRows>(
              open, StreamedRowsOptions{.shards = std::move(shards), .window = 4, .seed = 7});
        };
        return mixed_batches({{stream({0, 1}), 0.3}, {stream({2}), 0.7}}, shape, rank);
      },
      20);
}

TEST(ShuffledBatches, WithoutWeightsVisitEveryRowOnceAnEpoch) {
  const std::vector<int64_t> counts = {7, 100, 1, 23};
  const BatchSource source = shuffled_batches(sources(counts, {}), {131, 2}, 3);
  std::set<std::vector<int32_t>> orders;
  for (int64_t epoch : {0, 1, 1000}) {
    const Batch batch = source(epoch);
    std::set<std::pair<int32_t, int32_t>> rows;
    for (size_t i = 0; i < 131; ++i)
      rows.emplace(batch["tokens"][2 * i], batch["tokens"][2 * i + 1]);
    EXPECT_EQ(rows.size(), 131u);
    orders.insert(batch["tokens"]);
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST(ShuffledBatches, KeepTheWeightsAtEveryPlace) {
  const std::vector<int64_t> counts = {7, 100, 20, 3};
  const std::vector<double> weights = {0.5, 3, 1.2, 0.3};
  const BatchSource source = shuffled_batches(sources(counts, weights), {10'000, 2}, 3);
  std::vector<double> seen(4);
  std::vector<std::vector<int>> visits;
  for (int64_t count : counts) visits.emplace_back(count);
  const Batch batch = source(0);
  for (int row = 0; row < 10'000; ++row) {
    const auto from = static_cast<size_t>(batch["tokens"][2 * row]);
    ++seen[from];
    ++visits[from].at(static_cast<size_t>(batch["tokens"][2 * row + 1]));
    for (size_t i = 0; i < 4; ++i) ASSERT_NEAR(seen[i], (row + 1) * weights[i] / 5, 2) << row;
  }
  // Each source goes through its rows evenly, whatever its weight.
  for (const std::vector<int>& rows : visits)
    EXPECT_LE(*std::ranges::max_element(rows) - *std::ranges::min_element(rows), 1);
}

TEST(ShuffledBatches, TakeAnyWeightAboveZero) {
  EXPECT_NO_THROW(shuffled_batches(sources({5, 5}, {1e-300, 1}), {1, 2}, 3)(0));
}

// Rows that have numbers beside their text.
class ScoredRows : public Rows {
 public:
  int64_t count() const override { return 1; }
  void read(int64_t, const Row& into) const override {
    into.put(0, 1, std::vector<int32_t>{7, 8, 9}, std::vector<uint8_t>(3, 1));
    into.write("scores", 0, std::vector{0.5F, 0.5F});
    into.write("narrow", 0, std::vector{1 + 0x1p-9F});  // rounded to even
    std::ranges::fill(into["nobody's"], 1);
  }
};

// A row of data and one of padding, of a model that reads no positions.
TEST(Batches, HoldWhatTheModelReads) {
  const BatchSchema schema({.rows = 2, .length = 3},
                           {{.name = kTokens, .per_row = 3},
                            {.name = kTargets, .per_row = 3, .padding = kIgnoredTarget},
                            {.name = "scores", .element = Element::float32, .per_row = 2},
                            {.name = "narrow", .element = Element::bfloat16, .per_row = 1},
                            {.name = "places", .per_row = 3, .padding = 4, .counts = true}});
  const Batch batch = sequential_batches(std::make_shared<ScoredRows>(), schema)(0);
  using Ints = std::vector<int32_t>;
  EXPECT_EQ(batch[kTokens], (Ints{7, 8, 0, 0, 0, 0}));
  EXPECT_EQ(batch[kTargets], (Ints{8, 9, -1, -1, -1, -1}));
  EXPECT_EQ(batch["places"], (Ints{4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(std::get<std::vector<float>>(batch.inputs.at("scores")),
            (std::vector<float>{0.5, 0.5, 0, 0}));
  EXPECT_TRUE(std::get<std::vector<bfloat16>>(batch.inputs.at("narrow")) ==
              (std::vector{to_bfloat16(1), to_bfloat16(0)}));
  EXPECT_EQ(batch.inputs.size(), 5u);
  EXPECT_EQ(batch.total_weights, 2);
  EXPECT_THROW(batch["scores"], InternalError);
  EXPECT_THROW(batch[kSegments], InternalError);
}

TEST(Batches, AreTheSameFromSeveralThreads) {
  TemporaryFolder folder;
  const BatchSource source =
      shuffled_windows(counting_file(folder, 5003), {.rows = 4, .length = 7}, 5);
  std::vector<Batch> batches(64);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t m = t; m < batches.size(); m += 4) batches[m] = source(static_cast<int64_t>(m));
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t m = 0; m < batches.size(); ++m)
    EXPECT_TRUE(equal(batches[m], source(static_cast<int64_t>(m))));
}

TEST(Batches, RefuseImpossibleShapes) {
  for (BatchShape shape : {BatchShape{0, 5}, BatchShape{5, 0}, BatchShape{-1, -1},
                           BatchShape{int64_t{1} << 40, int64_t{1} << 40}})
    EXPECT_THROW(synthetic_batches(shape, 10, 0), InternalError);
}

}  // namespace
}  // namespace data
}  // namespace longshore
