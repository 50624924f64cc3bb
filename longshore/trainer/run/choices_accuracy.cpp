#include "longshore/trainer/run/choices_accuracy.h"

#include <algorithm>
#include <cmath>

namespace longshore::trainer {
namespace {

// Whether the choice of the greatest score is the answer.
template <class Score>
bool is_right(const ScoredQuestion& question, Score score) {
  std::vector<double> scores;
  for (const ScoredChoice& choice : question.choices) scores.push_back(score(choice));
  if (std::ranges::any_of(scores, [](double one) { return std::isnan(one); })) return false;
  return static_cast<size_t>(std::ranges::max_element(scores) - scores.begin()) == question.answer;
}

}  // namespace

ChoicesAccuracy choices_accuracy(std::span<const ScoredQuestion> questions) {
  ChoicesAccuracy right;
  for (const ScoredQuestion& question : questions) {
    right.by_likelihood +=
        is_right(question, [](const ScoredChoice& c) { return c.log_likelihood; });
    right.by_characters += is_right(question, [](const ScoredChoice& c) {
      return c.log_likelihood / static_cast<double>(c.characters);
    });
    right.by_bytes += is_right(question, [](const ScoredChoice& c) {
      return c.log_likelihood / static_cast<double>(c.bytes);
    });
  }
  const auto count = static_cast<double>(questions.size());
  return {right.by_likelihood / count, right.by_characters / count, right.by_bytes / count};
}

}  // namespace longshore::trainer
