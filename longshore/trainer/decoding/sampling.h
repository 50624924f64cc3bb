// choose_token() samples a token from logits.
#pragma once

#include <cstdint>
#include <span>

#include "longshore/base/error.h"

namespace longshore::trainer {

// Weights that are finite and make numbers that are not.
struct NonFiniteLogit : Error {
  using Error::Error;
};

struct Sampling {
  double temperature = 0.8;  // logits are divided by it; 0: the token with the largest logit
  int64_t top_k = 0;         // only the so many likeliest tokens; 0: all
  // Only the likeliest tokens that together have this probability, 0 < top_p <= 1, after top_k
  // (Holtzman et al. 2019, arXiv 1904.09751).
  double top_p = 1;
  uint64_t seed = 0;
};

// The token at place `index` of a text: a pure function of its arguments. Of equal logits the first
// is the larger. Throws NonFiniteLogit where one is not finite, InternalError without logits and
// for a Sampling that is not as said above.
int32_t choose_token(std::span<const float> logits, const Sampling& sampling, int64_t index);

}  // namespace longshore::trainer
