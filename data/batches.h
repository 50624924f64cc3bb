// What a training or evaluation step consumes.
//
// A source is a pure function of a micro-batch index: asking again, out of order or from another
// thread changes nothing, so a run can stop and resume anywhere. Rows are numbered through all
// micro-batches (row r of micro-batch m is row m * rows + r), and a row depends on its number
// alone. So the a-th of A micro-batches of step k is source(k * A + a), and these A hold the same
// rows as one batch A times as large.
//
// B rows of T positions: tokens, targets and positions are [B,T], row-major.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/token_shard.h"

namespace longshore::data {

// The target of a position that is not trained.
constexpr int32_t kIgnoredTarget = -1;

struct BatchShape {
  int64_t rows = 0;    // B
  int64_t length = 0;  // T
};

struct Batch {
  BatchShape shape;
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;    // the token after each token, or kIgnoredTarget
  std::vector<int32_t> positions;  // of each token within its sequence, from 0
  int64_t total_weights = 0;       // number of targets that are trained
};

using BatchSource = std::function<Batch(int64_t micro_batch)>;

// Tokens drawn uniformly from the vocabulary. Endless.
BatchSource synthetic_batches(BatchShape shape, int32_t vocab_size, uint64_t seed);

// The shard cut into windows of T + 1 tokens, each starting at the last token of the one before; up
// to T - 1 tokens at the end are left out. Every epoch visits each window once, in an order of its
// own. Endless. Throws a DataError when the shard holds no whole window.
BatchSource shuffled_batches(std::shared_ptr<const TokenShard> shard, BatchShape shape,
                             uint64_t seed);

// The shard's windows in order, for evaluation: every token but the first is a target once. What
// the last micro-batch has too much is filled with token 0 and ignored targets. Valid indices are
// those below sequential_batch_count.
BatchSource sequential_batches(std::shared_ptr<const TokenShard> shard, BatchShape shape);

// Throws a DataError when the shard holds fewer than 2 tokens, so nothing to predict.
int64_t sequential_batch_count(const TokenShard& shard, BatchShape shape);

}  // namespace longshore::data
