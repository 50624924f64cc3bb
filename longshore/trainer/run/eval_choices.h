// EvalChoices are the questions of multiple choice that a run is evaluated on, as rows to score.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "longshore/data/rows/scored_rows.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/run/choices_accuracy.h"

namespace longshore::trainer {

struct EvalChoices {
  std::vector<ScoredQuestion> questions;  // whose log-likelihoods are to be found
  // A sequence for each choice of each question, in their order.
  std::shared_ptr<const data::ScoredRows> rows;
  int64_t cut = 0;  // sequences that lack the beginning of their prompt
};

// Those of eval_choices_path. `opening` is the token that texts begin with. Of models that tell
// sequences of a row apart, rows have several. Throws ConfigError where there are none or too many,
// or a token that the model does not know; DataError, with file and line, for what is no question.
EvalChoices read_eval_choices(const Config& config, int32_t opening,
                              const data::Tokenizer& tokenizer, int64_t sequences_per_row);

}  // namespace longshore::trainer
