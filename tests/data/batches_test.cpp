#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

// Tokens 0, 1, 2, ...: a window shows where it was cut.
std::shared_ptr<const TokenShard> counting_shard(const TemporaryFolder& folder, int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  TokenShardWriter writer(folder / "counting.tokens", 1 << 20, 0);
  writer.append(tokens);
  writer.finish(0);
  return std::make_shared<TokenShard>(folder / "counting.tokens");
}

bool equal(const Batch& a, const Batch& b) {
  return a.tokens == b.tokens && a.targets == b.targets && a.positions == b.positions &&
         a.total_weights == b.total_weights;
}

// What every source must keep, whatever it draws from.
void expect_pure(const std::function<BatchSource(BatchShape)>& make, int64_t count) {
  const BatchShape shape{.rows = 3, .length = 5};
  const BatchSource source = make(shape);
  std::vector<Batch> forwards;
  for (int64_t m = 0; m < count; ++m) forwards.push_back(source(m));
  const BatchSource another = make(shape);
  for (int64_t m = count - 1; m >= 0; --m) {
    EXPECT_TRUE(equal(another(m), forwards[m])) << m;
    EXPECT_TRUE(equal(source(m), forwards[m])) << m;
  }
  for (const Batch& batch : forwards) {
    ASSERT_EQ(batch.tokens.size(), 15u);
    ASSERT_EQ(batch.targets.size(), 15u);
    ASSERT_EQ(batch.positions.size(), 15u);
    EXPECT_EQ(batch.total_weights,
              std::count_if(batch.targets.begin(), batch.targets.end(),
                            [](int32_t target) { return target != kIgnoredTarget; }));
    for (int i = 0; i < 15; ++i) {
      EXPECT_EQ(batch.positions[i], i % 5);
      if (i % 5 < 4 && batch.targets[i + 1] != kIgnoredTarget) {
        EXPECT_EQ(batch.targets[i], batch.tokens[i + 1]);
      }
    }
  }
  // Micro-batches hold the rows of one batch as large as all of them.
  const Batch large = make({.rows = 3 * count, .length = 5})(0);
  Batch joined;
  for (const Batch& batch : forwards) {
    joined.tokens.insert(joined.tokens.end(), batch.tokens.begin(), batch.tokens.end());
    joined.targets.insert(joined.targets.end(), batch.targets.begin(), batch.targets.end());
    joined.total_weights += batch.total_weights;
  }
  EXPECT_EQ(joined.tokens, large.tokens);
  EXPECT_EQ(joined.targets, large.targets);
  EXPECT_EQ(joined.total_weights, large.total_weights);
  EXPECT_THROW(source(-1), InternalError);
}

TEST(SyntheticBatches, ArePureFunctionsOfTheIndex) {
  expect_pure([](BatchShape shape) { return synthetic_batches(shape, 1000, 7); }, 20);
}

TEST(SyntheticBatches, DifferBySeedAndRow) {
  const BatchShape shape{.rows = 4, .length = 9};
  std::set<std::vector<int32_t>> rows;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
    for (int64_t m : {int64_t{0}, int64_t{1}, int64_t{1} << 40}) {
      const Batch batch = synthetic_batches(shape, 1000, seed)(m);
      for (int row = 0; row < 4; ++row)
        rows.emplace(batch.tokens.begin() + row * 9, batch.tokens.begin() + (row + 1) * 9);
    }
  EXPECT_EQ(rows.size(), 3u * 3 * 4);
}

TEST(SyntheticBatches, AreEvenOverTheVocabulary) {
  for (int32_t vocab_size : {1, 2, 257}) {
    const Batch batch = synthetic_batches({.rows = 100, .length = 1000}, vocab_size, 3)(5);
    std::vector<int> counts(static_cast<size_t>(vocab_size));
    for (int32_t token : batch.tokens) {
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
  const auto shard = counting_shard(folder, 103);  // 20 windows of 5: the batches cross epochs
  expect_pure([&](BatchShape shape) { return shuffled_batches(shard, shape, 7); }, 20);
}

TEST(ShuffledBatches, EveryEpochVisitsEachWindowOnceInAnOrderOfItsOwn) {
  TemporaryFolder folder;
  const int length = 4;
  for (int32_t token_count : {5, 8, 9, 41, 44, 401}) {
    const auto shard = counting_shard(folder, token_count);
    const int window_count = (token_count - 1) / length;
    for (int64_t rows : {1, 3, 8}) {
      const BatchSource source = shuffled_batches(shard, {.rows = rows, .length = length}, 5);
      std::vector<int32_t> starts;
      for (int64_t m = 0; static_cast<int>(starts.size()) < 3 * window_count; ++m) {
        const Batch batch = source(m);
        EXPECT_EQ(batch.total_weights, rows * length);
        for (int64_t row = 0; row < rows; ++row) {
          const int32_t start = batch.tokens[row * length];
          for (int t = 0; t < length; ++t) {
            EXPECT_EQ(batch.tokens[row * length + t], start + t);
            EXPECT_EQ(batch.targets[row * length + t], start + t + 1);
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
  const auto shard = counting_shard(folder, 1001);
  const BatchShape shape{.rows = 50, .length = 10};
  EXPECT_NE(shuffled_batches(shard, shape, 1)(0).tokens,
            shuffled_batches(shard, shape, 2)(0).tokens);
}

TEST(ShuffledBatches, RefuseAShardWithoutAWholeWindow) {
  TemporaryFolder folder;
  for (int32_t count : {0, 1, 5}) {
    const std::string message = message_of<DataError>(
        [&] { shuffled_batches(counting_shard(folder, count), {.rows = 1, .length = 5}, 0); });
    EXPECT_NE(message.find("found " + std::to_string(count) + " tokens; one sequence takes 6"),
              std::string::npos)
        << message;
  }
  EXPECT_NO_THROW(shuffled_batches(counting_shard(folder, 6), {.rows = 1, .length = 5}, 0)(3));
}

TEST(SequentialBatches, ArePureFunctionsOfTheIndex) {
  TemporaryFolder folder;
  const auto shard = counting_shard(folder, 5 * 3 * 20 - 3);
  expect_pure([&](BatchShape shape) { return sequential_batches(shard, shape); }, 20);
}

TEST(SequentialBatches, PredictEveryTokenButTheFirstOnce) {
  TemporaryFolder folder;
  for (int32_t token_count : {2, 3, 12, 13, 14, 24, 25, 26, 100, 121}) {
    const auto shard = counting_shard(folder, token_count);
    for (int64_t rows : {1, 2, 3})
      for (int64_t length : {1, 4, 200}) {
        const BatchShape shape{.rows = rows, .length = length};
        const BatchSource source = sequential_batches(shard, shape);
        std::vector<int32_t> targets;
        int64_t total_weights = 0;
        for (int64_t m = 0; m < sequential_batch_count(*shard, shape); ++m) {
          const Batch batch = source(m);
          EXPECT_GT(batch.total_weights, 0);
          total_weights += batch.total_weights;
          for (size_t i = 0; i < batch.targets.size(); ++i) {
            if (batch.targets[i] == kIgnoredTarget) {
              EXPECT_EQ(batch.tokens[i], 0);
            } else {
              EXPECT_EQ(batch.tokens[i], batch.targets[i] - 1);
              targets.push_back(batch.targets[i]);
            }
          }
        }
        std::vector<int32_t> expected(static_cast<size_t>(token_count) - 1);
        std::iota(expected.begin(), expected.end(), 1);
        EXPECT_EQ(targets, expected) << token_count << " " << rows << " " << length;
        EXPECT_EQ(total_weights, token_count - 1);
        EXPECT_THROW(source(sequential_batch_count(*shard, shape)), InternalError);
      }
  }
}

TEST(SequentialBatches, RefuseAShardWithNothingToPredict) {
  TemporaryFolder folder;
  EXPECT_THROW(sequential_batches(counting_shard(folder, 1), {.rows = 1, .length = 5}), DataError);
}

TEST(Batches, RefuseImpossibleShapes) {
  for (BatchShape shape : {BatchShape{0, 5}, BatchShape{5, 0}, BatchShape{-1, -1},
                           BatchShape{int64_t{1} << 40, int64_t{1} << 40}})
    EXPECT_THROW(synthetic_batches(shape, 10, 0), InternalError);
}

}  // namespace
}  // namespace longshore::data
