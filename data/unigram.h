// The loss that a model must beat: predicting each token by its frequency alone.
#pragma once

#include <memory>
#include <span>

#include "data/token_shard.h"

namespace longshore::data {

// Cross-entropy of the validation shard's tokens, in nats per token, under the token frequencies of
// the training shards, all together, with one added to each token's count. Of tokens that carry
// loss. Throws a DataError when the shards come from different tokenizers or there is no such token
// in the validation shard.
double unigram_cross_entropy(std::span<const std::shared_ptr<const TokenShard>> training,
                             const TokenShard& validation);

}  // namespace longshore::data
