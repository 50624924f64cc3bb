#include "longshore/data/rows/exchange_answers.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "longshore/data/rows/batch.h"

namespace longshore::data {
namespace {

bool is_chosen(const TokenSequence& sequence) { return sequence.segment % 2 == 1; }

int32_t pair_of(const TokenSequence& sequence) { return (sequence.segment - 1) / 2; }

std::span<const int32_t> prompt_of(const TokenSequence& sequence) {
  const auto length = static_cast<size_t>(prompt_length(sequence.carries_loss));
  return std::span(sequence.tokens).first(length);
}

// The answers of one pair may share tokens with the prompt, each in its own way.
bool have_different_prompts(const std::vector<TokenSequence>& sequences) {
  return std::ranges::any_of(sequences, [&](const TokenSequence& one) {
    return pair_of(one) != pair_of(sequences.front()) &&
           !std::ranges::equal(prompt_of(one), prompt_of(sequences.front()));
  });
}

// All behind the prompt becomes what is behind another one's.
void replace_answer(TokenSequence& sequence, const TokenSequence& other) {
  const auto kept = prompt_length(sequence.carries_loss);
  const auto begin = prompt_length(other.carries_loss);
  auto replace = [&](auto& to, const auto& from) {
    to.resize(static_cast<size_t>(kept));
    to.insert(to.end(), from.begin() + begin, from.end());
  };
  replace(sequence.tokens, other.tokens);
  replace(sequence.carries_loss, other.carries_loss);
}

}  // namespace

void exchange_answers(std::vector<TokenSequence>& sequences) {
  if (!have_different_prompts(sequences)) {
    for (TokenSequence& sequence : sequences) std::ranges::fill(sequence.carries_loss, uint8_t{0});
    return;
  }
  const std::vector<TokenSequence> own = sequences;
  std::vector<size_t> order;
  for (const bool chosen : {true, false})
    for (size_t i = 0; i < own.size(); ++i)
      if (is_chosen(own[i]) == chosen) order.push_back(i);
  for (size_t i = 0; i < order.size(); ++i)
    replace_answer(sequences[order[i]], own[order[i == 0 ? order.size() - 1 : i - 1]]);
}

}  // namespace longshore::data
