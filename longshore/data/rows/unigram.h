// The loss that a model must beat: predicting each token by its frequency alone.
#pragma once

#include <memory>
#include <span>

#include "longshore/data/rows/rows.h"
#include "longshore/data/rows/token_file.h"

namespace longshore::data {

// The first rows of a validation set, as far as it is evaluated.
struct EvaluatedRows {
  std::shared_ptr<const Rows> rows;
  int64_t count = 0;
  int64_t length = 0;  // T
};

// Cross-entropy of the targets of all validation rows together, in nats per token, under the
// frequencies of the tokens that carry loss in the token files of training, all together, with one
// added to each token's count. Ids are below `vocab_size`.
double unigram_cross_entropy(std::span<const std::shared_ptr<const TokenFile>> training,
                             std::span<const EvaluatedRows> validation, int32_t vocab_size);

}  // namespace longshore::data
