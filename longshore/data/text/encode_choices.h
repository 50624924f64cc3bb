// encode_choices() turns a question of multiple choice into the sequences that a model scores.
#pragma once

#include <cstdint>
#include <vector>

#include "longshore/data/rows/scored_rows.h"
#include "longshore/data/text/choice_record.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

struct EncodedChoice {
  ScoredSequence sequence;
  bool is_cut = false;  // of the context's beginning
  // Of the choice's text, without white space that it begins with: code points, and bytes of UTF-8.
  int64_t characters = 0, bytes = 0;
};

// A sequence for each choice, behind the token `opening`, as lm-evaluation-harness (0.4.13) encodes
// them: prompt and choice are one text to the tokenizer, white space at the prompt's end is the
// choice's, and what the text has beyond as many tokens as the prompt alone has is scored. Of more
// than length + 1 tokens the last are taken. Throws a DataError, without file and line, where a
// choice adds no token, or has more than `length`.
std::vector<EncodedChoice> encode_choices(const ChoiceRecord& record, int32_t opening,
                                          const Tokenizer& tokenizer, int64_t length);

}  // namespace longshore::data
