// The loss that a model must beat: predicting each token by its frequency alone.
#pragma once

#include "data/token_shard.h"

namespace longshore::data {

// Cross-entropy of the validation shard's tokens, in nats per token, under the token frequencies of
// the training shard with one added to each token's count. Throws a DataError when the shards come
// from different tokenizers or the validation shard is empty.
double unigram_cross_entropy(const TokenShard& training, const TokenShard& validation);

}  // namespace longshore::data
