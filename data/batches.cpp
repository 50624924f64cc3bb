#include "data/batches.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/philox.h"
#include "data/permutation.h"

namespace longshore::data {
namespace {

void check_shape(BatchShape shape) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (shape.rows < 1 || shape.length < 1 || shape.rows > most / shape.length)
    throw InternalError("batch of " + std::to_string(shape.rows) + " rows of " +
                        std::to_string(shape.length) + " tokens");
}

// The number of the micro-batch's first row.
int64_t first_row(BatchShape shape, int64_t micro_batch) {
  if (micro_batch < 0 || micro_batch > std::numeric_limits<int64_t>::max() / shape.rows - 1)
    throw InternalError("micro-batch " + std::to_string(micro_batch));
  return micro_batch * shape.rows;
}

Batch ignored_batch(BatchShape shape) {
  Batch batch;
  batch.shape = shape;
  const size_t size = static_cast<size_t>(shape.rows * shape.length);
  batch.tokens.assign(size, 0);
  batch.targets.assign(size, kIgnoredTarget);
  batch.positions.resize(size);
  for (size_t i = 0; i < size; ++i)
    batch.positions[i] = static_cast<int32_t>(i % static_cast<size_t>(shape.length));
  return batch;
}

// `window` has up to T + 1 tokens: inputs and, one further, their targets.
void fill_row(Batch& batch, int64_t row, std::span<const int32_t> window) {
  const auto at = row * batch.shape.length;
  std::copy(window.begin(), window.end() - 1, batch.tokens.begin() + at);
  std::copy(window.begin() + 1, window.end(), batch.targets.begin() + at);
  batch.total_weights += static_cast<int64_t>(window.size()) - 1;
}

}  // namespace

BatchSource synthetic_batches(BatchShape shape, int32_t vocab_size, uint64_t seed) {
  check_shape(shape);
  if (vocab_size < 1) throw InternalError("vocabulary of " + std::to_string(vocab_size));
  return [=](int64_t micro_batch) {
    const int64_t first = first_row(shape, micro_batch);
    Batch batch = ignored_batch(shape);
    std::vector<int32_t> window(static_cast<size_t>(shape.length) + 1);
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (size_t t = 0; t < window.size(); t += 4) {
        const PhiloxBlock random = philox(seed, RandomUse::kSyntheticTokens,
                                          static_cast<uint32_t>(t / 4), uint64_t(first + row));
        for (size_t i = 0; i < 4 && t + i < window.size(); ++i)
          window[t + i] = static_cast<int32_t>(uint64_t{random[i]} * uint64_t(vocab_size) >> 32);
      }
      fill_row(batch, row, window);
    }
    return batch;
  };
}

BatchSource shuffled_batches(std::shared_ptr<const TokenShard> shard, BatchShape shape,
                             uint64_t seed) {
  check_shape(shape);
  const int64_t window_count = (shard->token_count() - 1) / shape.length;
  if (window_count < 1)
    throw DataError(shard->path().string() + ": found " + std::to_string(shard->token_count()) +
                    " tokens; one sequence takes " + std::to_string(shape.length + 1));
  return [=](int64_t micro_batch) {
    const int64_t first = first_row(shape, micro_batch);
    Batch batch = ignored_batch(shape);
    std::vector<int32_t> window(static_cast<size_t>(shape.length) + 1);
    int64_t epoch = -1;
    std::optional<Permutation> order;
    for (int64_t row = 0; row < shape.rows; ++row) {
      const int64_t place = first + row;
      if (place / window_count != epoch) {
        epoch = place / window_count;
        order.emplace(uint64_t(window_count), seed, uint64_t(epoch));
      }
      const uint64_t chosen = (*order)(uint64_t(place % window_count));
      shard->read(static_cast<int64_t>(chosen) * shape.length, window);
      fill_row(batch, row, window);
    }
    return batch;
  };
}

int64_t sequential_batch_count(const TokenShard& shard, BatchShape shape) {
  check_shape(shape);
  if (shard.token_count() < 2)
    throw DataError(shard.path().string() + ": found " + std::to_string(shard.token_count()) +
                    " tokens; evaluation takes at least 2");
  const int64_t target_count = shard.token_count() - 1;
  return (target_count - 1) / (shape.rows * shape.length) + 1;
}

BatchSource sequential_batches(std::shared_ptr<const TokenShard> shard, BatchShape shape) {
  const int64_t batch_count = sequential_batch_count(*shard, shape);
  return [=](int64_t micro_batch) {
    if (micro_batch < 0 || micro_batch >= batch_count)
      throw InternalError(shard->path().string() + ": evaluation batch " +
                          std::to_string(micro_batch) + " of " + std::to_string(batch_count));
    const int64_t first = first_row(shape, micro_batch);
    Batch batch = ignored_batch(shape);
    std::vector<int32_t> window;
    for (int64_t row = 0; row < shape.rows; ++row) {
      const int64_t begin = (first + row) * shape.length;
      const int64_t end = std::min(begin + shape.length + 1, shard->token_count());
      if (end - begin < 2) break;
      window.resize(static_cast<size_t>(end - begin));
      shard->read(begin, window);
      fill_row(batch, row, window);
    }
    return batch;
  };
}

}  // namespace longshore::data
