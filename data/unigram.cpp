#include "data/unigram.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/pieces.h"

namespace longshore::data {
namespace {

// Adds them by their ids.
void count_tokens(const TokenShard& shard, std::vector<int64_t>& counts) {
  constexpr int64_t kPieceTokens = 1 << 16;  // stay in the processor's cache
  std::vector<int32_t> tokens;
  std::vector<uint8_t> carries_loss;
  for_each_piece(shard.token_count(), kPieceTokens, [&](int64_t first, int64_t count) {
    tokens.resize(static_cast<size_t>(count));
    carries_loss.resize(tokens.size());
    shard.read(first, tokens);
    shard.read_loss_marks(first, carries_loss);
    for (size_t i = 0; i < tokens.size(); ++i)
      counts[static_cast<size_t>(tokens[i])] += carries_loss[i];
  });
}

void require_same_vocabulary(const TokenShard& training, const TokenShard& validation) {
  validation.require_tokenizer(training.tokenizer_hash(), training.path().string());
  if (validation.vocab_size() != training.vocab_size())
    throw DataError(validation.path().string() + ": vocabulary of " +
                    std::to_string(validation.vocab_size()) + "; " + training.path().string() +
                    " has one of " + std::to_string(training.vocab_size()));
}

double sum_of(const std::vector<int64_t>& counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
}

}  // namespace

double unigram_cross_entropy(std::span<const std::shared_ptr<const TokenShard>> training,
                             const TokenShard& validation) {
  std::vector<int64_t> seen(static_cast<size_t>(validation.vocab_size()));
  std::vector<int64_t> held_out = seen;
  for (const std::shared_ptr<const TokenShard>& shard : training) {
    require_same_vocabulary(*shard, validation);
    count_tokens(*shard, seen);
  }
  count_tokens(validation, held_out);
  if (sum_of(held_out) == 0)
    throw DataError(validation.path().string() + ": found no tokens; expected text to evaluate on");
  const double total = sum_of(seen) + static_cast<double>(seen.size());
  double nats = 0;
  for (size_t token = 0; token < seen.size(); ++token)
    if (held_out[token] > 0)
      nats -= static_cast<double>(held_out[token]) *
              std::log(static_cast<double>(seen[token] + 1) / total);
  return nats / sum_of(held_out);
}

}  // namespace longshore::data
