// choices_accuracy() scores questions of multiple choice by log-likelihoods, as
// lm-evaluation-harness does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longshore::trainer {

struct ScoredChoice {
  double log_likelihood = 0;          // of its tokens together
  int64_t characters = 1, bytes = 1;  // of its text
};

struct ScoredQuestion {
  std::vector<ScoredChoice> choices;
  size_t answer = 0;
};

// The part of the questions whose likeliest choice, the first of equal ones, is the answer: by
// log-likelihood; by that over characters, which lm-evaluation-harness calls acc_norm; and over
// bytes, acc_bytes.
struct ChoicesAccuracy {
  double by_likelihood = 0, by_characters = 0, by_bytes = 0;
};

// Of one question or more. A question with a log-likelihood that is NaN counts as wrong.
ChoicesAccuracy choices_accuracy(std::span<const ScoredQuestion> questions);

}  // namespace longshore::trainer
