#include "longshore/data/rows/unigram.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "longshore/base/pieces.h"

namespace longshore::data {
namespace {

// Adds them by their ids.
void count_tokens(const TokenFile& file, std::vector<int64_t>& counts) {
  constexpr int64_t kPieceTokens = 1 << 16;  // stay in the processor's cache
  std::vector<int32_t> tokens;
  std::vector<uint8_t> carries_loss;
  for_each_piece(file.token_count(), kPieceTokens, [&](int64_t first, int64_t count) {
    tokens.resize(static_cast<size_t>(count));
    carries_loss.resize(tokens.size());
    file.read(first, tokens);
    file.read_loss_mask(first, carries_loss);
    for (size_t i = 0; i < tokens.size(); ++i)
      counts[static_cast<size_t>(tokens[i])] += carries_loss[i];
  });
}

void count_targets(const EvaluatedRows& validation, std::vector<int64_t>& counts) {
  const BatchSchema schema(
      {.rows = 1, .length = validation.length},
      {{.name = kTargets, .per_row = validation.length, .padding = kIgnoredTarget}});
  for (int64_t row = 0; row < validation.count; ++row) {
    Batch batch = padding(schema);
    validation.rows->read(row, Row(batch, 0));
    for (int32_t target : batch[kTargets])
      if (target != kIgnoredTarget) ++counts[static_cast<size_t>(target)];
  }
}

double sum_of(const std::vector<int64_t>& counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
}

}  // namespace

double unigram_cross_entropy(std::span<const std::shared_ptr<const TokenFile>> training,
                             std::span<const EvaluatedRows> validation, int32_t vocab_size) {
  std::vector<int64_t> seen(static_cast<size_t>(vocab_size));
  std::vector<int64_t> held_out = seen;
  for (const std::shared_ptr<const TokenFile>& file : training) count_tokens(*file, seen);
  for (const EvaluatedRows& rows : validation) count_targets(rows, held_out);
  const double total = sum_of(seen) + static_cast<double>(seen.size());
  double nats = 0;
  for (size_t token = 0; token < seen.size(); ++token)
    if (held_out[token] > 0)
      nats -= static_cast<double>(held_out[token]) *
              std::log(static_cast<double>(seen[token] + 1) / total);
  return nats / sum_of(held_out);
}

}  // namespace longshore::data
