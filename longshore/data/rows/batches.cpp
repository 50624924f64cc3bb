#include "longshore/data/rows/batches.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/philox.h"
#include "longshore/base/processors.h"
#include "longshore/base/text.h"
#include "longshore/data/rows/mixture.h"
#include "longshore/data/rows/permutation.h"
#include "longshore/data/rows/read_rows.h"

namespace longshore::data {
namespace {

void check_shape(BatchShape shape) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (shape.rows < 1 || shape.length < 1 || shape.rows > most / shape.length)
    throw InternalError("batch of " + std::to_string(shape.rows) + " rows of " +
                        std::to_string(shape.length) + " tokens");
}

void check_rank(Rank rank) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (rank.rank < 0 || rank.rank >= rank.world_size || rank.world_size > most)
    throw InternalError("rank " + std::to_string(rank.rank) + " of " +
                        std::to_string(rank.world_size));
}

// The number of the first row that a rank has of a micro-batch.
int64_t first_row(BatchShape shape, Rank rank, int64_t micro_batch) {
  const int64_t rows_of_all = shape.rows * rank.world_size;
  if (micro_batch < 0 || micro_batch > std::numeric_limits<int64_t>::max() / rows_of_all - 1)
    throw InternalError("micro-batch " + std::to_string(micro_batch));
  return micro_batch * rows_of_all + rank.rank * shape.rows;
}

// Rows `first`, `first` + 1, ... as `read(number, into)` writes them.
template <class Read>
Batch filled(const BatchSchema& schema, int64_t first, Read read) {
  Batch batch = padding(schema);
  // Images take long to decode; text does not.
  const int64_t threads = batch.has(kPixelValues) ? usable_processors() : 1;
  read_rows(schema.shape.rows, threads, [&](int64_t row) {
    const Row into(batch, row, schema.answers);
    std::ranges::fill(into[kRowNumbers], static_cast<int32_t>(first + row));
    read(first + row, into);
  });
  count_weights(batch, schema.counted);
  return batch;
}

// Shares of the rows of all, to 32 bits.
std::vector<uint64_t> shares(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> shares;
  for (double weight : weights)
    shares.push_back(std::max<uint64_t>(1, std::llround(weight / sum * 0x1p32)));
  return shares;
}

std::vector<uint64_t> shares(const std::vector<WeightedRows>& sources) {
  const bool has_weights = sources.front().weight.has_value();
  std::vector<double> weights;
  std::vector<uint64_t> counts;
  for (const WeightedRows& source : sources) {
    weights.push_back(source.weight.value_or(0));
    counts.push_back(static_cast<uint64_t>(source.rows->count()));
  }
  return has_weights ? shares(weights) : counts;
}

// All rows, in epochs, each in an order of its own.
class ShuffledRows : public RowSequence {
 public:
  ShuffledRows(std::shared_ptr<const Rows> rows, uint64_t seed)
      : rows_(std::move(rows)), seed_(seed) {}

  void read(int64_t place, const Row& into) const override {
    const int64_t count = rows_->count();
    const Permutation order(uint64_t(count), seed_, uint64_t(place / count));
    rows_->read(static_cast<int64_t>(order(uint64_t(place % count))), into);
  }

 private:
  std::shared_ptr<const Rows> rows_;
  uint64_t seed_;
};

using Sequences = std::vector<std::shared_ptr<const RowSequence>>;

BatchSource mixed(Sequences sequences, std::vector<uint64_t> shares, BatchSchema schema, Rank rank,
                  std::optional<int64_t> end) {
  const BatchShape shape = schema.shape;
  check_shape(shape);
  check_rank(rank);
  const Mixture mixture(std::move(shares));
  return [=](int64_t micro_batch) {
    return filled(schema, first_row(shape, rank, micro_batch),
                  [&](int64_t number, const Row& into) {
                    if (end && number >= *end) return;
                    const Mixture::Place place = mixture(number);
                    sequences[place.source]->read(place.row, into);
                  });
  };
}

// The first tokens of rows become those of images, which carry no loss, nor does their prompt.
void put_image_tokens(const RowImages& images, std::span<int32_t> window,
                      std::span<uint8_t> carries_loss) {
  const auto each = static_cast<size_t>(images.text.tokens_per_image);
  const bool is_before_text = images.text.kind == ImageText::Kind::before_text;
  std::ranges::replace(window, images.text.image_token, images.text.image_token == 0 ? 1 : 0);
  size_t at = 0;
  for (int64_t image = 0; image < images.images_per_row; ++image) {
    if (!is_before_text) ++at;
    std::ranges::fill(window.subspan(at, each), images.text.image_token);
    std::ranges::fill(carries_loss.subspan(at, each), uint8_t{0});
    at += each;
  }
  if (is_before_text)
    std::ranges::fill(carries_loss.first(at + (window.size() - at) / 4), uint8_t{0});
}

void check_images(const RowImages& images, int64_t length) {
  check(images);
  const int64_t others =
      images.text.kind == ImageText::Kind::before_text ? 0 : images.images_per_row;
  const int64_t least = images.tokens_per_row() + others;
  if (length < least)
    throw ConfigError("max_target_length: found " + std::to_string(length) +
                      ", expected at least " + std::to_string(least) + " for " +
                      plural(images.images_per_row, "image") + " a row; nearest: a smaller " +
                      "max_num_images_per_example");
}

void write_random_pixels(const RowImages& images, uint64_t seed, int64_t row,
                         RowImageWriter& writer) {
  std::vector<float> planes(static_cast<size_t>(images.pixels.value_count()));
  uint32_t block = 0;  // of the row
  for (int64_t image = 0; image < images.images_per_row; ++image) {
    for (size_t at = 0; at < planes.size(); at += 4) {
      const PhiloxBlock random = philox(seed, RandomUse::synthetic_pixels, block++, uint64_t(row));
      for (size_t i = 0; i < 4 && at + i < planes.size(); ++i)
        planes[at + i] = static_cast<float>(random[i] >> 8) * 0x1p-23f - 1;
    }
    writer.write_pixels(planes);
  }
}

}  // namespace

BatchSource synthetic_batches(BatchSchema schema, int32_t vocab_size, uint64_t seed, Rank rank,
                              std::optional<RowImages> images) {
  const BatchShape shape = schema.shape;
  check_shape(shape);
  check_rank(rank);
  if (vocab_size < 1) throw InternalError("vocabulary of " + std::to_string(vocab_size));
  if (images) check_images(*images, shape.length);
  return [=](int64_t micro_batch) {
    return filled(
        schema, first_row(shape, rank, micro_batch), [&](int64_t number, const Row& into) {
          std::vector<int32_t> window(static_cast<size_t>(shape.length) + 1);
          std::vector<uint8_t> carries_loss(window.size(), 1);
          for (size_t t = 0; t < window.size(); t += 4) {
            const PhiloxBlock random = philox(seed, RandomUse::synthetic_tokens,
                                              static_cast<uint32_t>(t / 4), uint64_t(number));
            for (size_t i = 0; i < 4 && t + i < window.size(); ++i)
              window[t + i] =
                  static_cast<int32_t>(uint64_t{random[i]} * uint64_t(vocab_size) >> 32);
          }
          if (images) put_image_tokens(*images, window, carries_loss);
          into.put(0, kPadding + 1, window, carries_loss);
          if (!images) return;
          RowImageWriter writer(*images, into, shape.length);
          writer.put(0, window, carries_loss, images->images_per_row);
          if (into.has(kPixelValues)) write_random_pixels(*images, seed, number, writer);
        });
  };
}

BatchSource shuffled_batches(std::vector<WeightedRows> sources, BatchSchema schema, uint64_t seed,
                             Rank rank, std::optional<int64_t> end) {
  Sequences sequences;
  for (const WeightedRows& source : sources)
    sequences.push_back(std::make_shared<const ShuffledRows>(source.rows, seed));
  return mixed(std::move(sequences), shares(sources), std::move(schema), rank, end);
}

BatchSource mixed_batches(std::vector<WeightedSequence> sequences, BatchSchema schema, Rank rank) {
  Sequences rows;
  std::vector<double> weights;
  for (WeightedSequence& one : sequences) {
    rows.push_back(std::move(one.rows));
    weights.push_back(one.weight);
  }
  return mixed(std::move(rows), shares(weights), std::move(schema), rank, std::nullopt);
}

int64_t sequential_batch_count(const Rows& rows, BatchShape shape, int64_t world_size) {
  check_shape(shape);
  return (rows.count() - 1) / (shape.rows * world_size) + 1;
}

BatchSource sequential_batches(std::shared_ptr<const Rows> rows, BatchSchema schema, Rank rank) {
  const BatchShape shape = schema.shape;
  check_rank(rank);
  const int64_t batch_count = sequential_batch_count(*rows, shape, rank.world_size);
  return [=](int64_t micro_batch) {
    if (micro_batch < 0 || micro_batch >= batch_count)
      throw InternalError("evaluation batch " + std::to_string(micro_batch) + " of " +
                          std::to_string(batch_count));
    return filled(schema, first_row(shape, rank, micro_batch),
                  [&](int64_t number, const Row& into) {
                    if (number < rows->count()) rows->read(number, into);
                  });
  };
}

}  // namespace longshore::data
