// exchange_answers() gives each prompt of a row the answer to another one.
#pragma once

#include <cstdint>
#include <vector>

namespace longshore::data {

// A sequence of tokens as a row takes it.
struct TokenSequence {
  int32_t segment = 0;
  std::vector<int32_t> tokens = {};
  std::vector<uint8_t> carries_loss = {};  // 1 or 0 for each token
  int64_t first_token = 0;                 // where it begins in the file
  int64_t image_count = 0;
};

// Of sequences of pairs (see DocumentRows) each keeps its segment and its prompt, see
// prompt_length(), and gets what follows the prompt in the one before it, the first that of the
// last; here all chosen answers come before all rejected ones, so that a pair's own two do not meet
// as long as others are there. Together they are as long as before. Where all pairs have the same
// prompt, nothing carries loss any more.
void exchange_answers(std::vector<TokenSequence>& sequences);

}  // namespace longshore::data
