// A BatchSource gives what the steps of training and evaluation consume, one micro-batch after the
// other.
//
// A source is a pure function of a micro-batch index: asking again, out of order or from another
// thread changes nothing, so a run can stop and resume anywhere. Rows are numbered through all
// micro-batches (row r of micro-batch m is row m * rows + r), and a row depends on its number
// alone, but for the places of its images in the batch. So the a-th of A micro-batches of step k is
// source(k * A + a), and these A hold the same rows as one batch A times as large.
//
// N ranks share each micro-batch: rank n has the n-th of N equal parts of its rows. Together they
// hold the same rows as one rank whose batch is N times as large.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "longshore/data/rows/row_images.h"
#include "longshore/data/rows/row_sequence.h"
#include "longshore/data/rows/rows.h"

namespace longshore::data {

// Which of the processes that train together a source is for.
struct Rank {
  int64_t rank = 0;
  int64_t world_size = 1;
};

// Rows with pixels are read by several threads, as many as there are processors to use.
using BatchSource = std::function<Batch(int64_t micro_batch)>;

// Tokens drawn uniformly from the vocabulary. Endless. With `images` all slots of a row have one,
// of values drawn uniformly from [-1, 1): the images' tokens are the row's first, in a model that
// has them in its text with another token before each, and else with a quarter of the tokens behind
// them as their prompt, which is not trained on either. Throws a ConfigError where nothing to train
// would be left.
BatchSource synthetic_batches(BatchSchema schema, int32_t vocab_size, uint64_t seed, Rank rank = {},
                              std::optional<RowImages> images = std::nullopt);

struct WeightedRows {
  std::shared_ptr<const Rows> rows;
  std::optional<double> weight;  // its share of the rows of all; not given: rows->count()
};

// Rows of one or several sources, as Mixture mixes them; each source visits its rows in epochs,
// every row once in an order of its own. Endless, or padding from row `end` on. Rows are as long as
// the schema says. Weights are above 0 and given for all sources or for none; they are kept to 32
// bits.
BatchSource shuffled_batches(std::vector<WeightedRows> sources, BatchSchema schema, uint64_t seed,
                             Rank rank = {}, std::optional<int64_t> end = std::nullopt);

struct WeightedSequence {
  std::shared_ptr<const RowSequence> rows;
  double weight = 1;
};

// The same of sequences, each with its share of the rows.
BatchSource mixed_batches(std::vector<WeightedSequence> sequences, BatchSchema schema,
                          Rank rank = {});

// All rows in order, for evaluation. What the last micro-batch has too much is padding, which may
// be all that a rank has of it. Valid indices are those below sequential_batch_count, the same
// number for every rank.
BatchSource sequential_batches(std::shared_ptr<const Rows> rows, BatchSchema schema,
                               Rank rank = {});

int64_t sequential_batch_count(const Rows& rows, BatchShape shape, int64_t world_size = 1);

}  // namespace longshore::data
