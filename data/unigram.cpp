#include "data/unigram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace longshore::data {
namespace {

std::vector<int64_t> count_tokens(const TokenShard& shard) {
  constexpr int64_t kChunkTokens = 1 << 16;
  std::vector<int64_t> counts(static_cast<size_t>(shard.vocab_size()));
  std::vector<int32_t> chunk;
  for (int64_t first = 0; first < shard.token_count(); first += kChunkTokens) {
    chunk.resize(static_cast<size_t>(std::min(kChunkTokens, shard.token_count() - first)));
    shard.read(first, chunk);
    for (int32_t token : chunk) ++counts[static_cast<size_t>(token)];
  }
  return counts;
}

}  // namespace

double unigram_cross_entropy(const TokenShard& training, const TokenShard& validation) {
  validation.require_tokenizer(training.tokenizer_hash(), training.path().string());
  if (validation.vocab_size() != training.vocab_size())
    throw DataError(validation.path().string() + ": vocabulary of " +
                    std::to_string(validation.vocab_size()) + "; " + training.path().string() +
                    " has one of " + std::to_string(training.vocab_size()));
  if (validation.token_count() == 0)
    throw DataError(validation.path().string() + ": found no tokens; expected text to evaluate on");
  const std::vector<int64_t> seen = count_tokens(training);
  const std::vector<int64_t> held_out = count_tokens(validation);
  const double total =
      static_cast<double>(training.token_count()) + static_cast<double>(seen.size());
  double nats = 0;
  for (size_t token = 0; token < seen.size(); ++token)
    if (held_out[token] > 0)
      nats -= static_cast<double>(held_out[token]) *
              std::log(static_cast<double>(seen[token] + 1) / total);
  return nats / static_cast<double>(validation.token_count());
}

}  // namespace longshore::data
