#include "longshore/trainer/step/answers.h"

#include <map>

namespace longshore::trainer {

std::vector<Answer> answers_of(const data::Batch& batch) {
  const std::vector<int32_t>&targets = batch[data::kTargets], &segments = batch[data::kSegments];
  std::vector<Answer> answers;
  for (int64_t begin = 0, end = 0; begin < std::ssize(targets); begin = end) {
    const int64_t row = begin / batch.shape.length * batch.shape.length;
    Answer answer{.place = row + segments[begin] - 1, .begin = begin};
    for (; end < row + batch.shape.length && segments[end] == segments[begin]; ++end)
      if (targets[end] != data::kIgnoredTarget) ++answer.tokens;
    answer.end = end;
    if (segments[begin] != data::kPadding && answer.tokens > 0) answers.push_back(answer);
  }
  return answers;
}

void add_rewards(const models::PreferenceObjective& objective, const data::Batch& batch,
                 std::span<const float> log_probs, std::span<const float> reference,
                 Rewards& rewards) {
  std::map<int64_t, double> of_chosen;  // by place
  for (const Answer& answer : answers_of(batch)) {
    const auto at = static_cast<size_t>(answer.place);
    const double log_prob = log_probs[at];
    double measure = log_prob;
    if (objective.has_reference)
      measure -= reference[at];
    else if (objective.loss.normalizes_length)
      measure /= static_cast<double>(answer.tokens);
    const double reward = objective.loss.beta * measure;
    const bool is_chosen = answer.is_chosen(batch.shape.length);
    (is_chosen ? rewards.chosen : rewards.rejected) += reward;
    (is_chosen ? rewards.chosen_log_probs : rewards.rejected_log_probs) += log_prob;
    (is_chosen ? rewards.chosen_answers : rewards.rejected_answers) += 1;
    if (is_chosen) {
      of_chosen[answer.place] = reward;
    } else if (const auto chosen = of_chosen.find(answer.place - 1); chosen != of_chosen.end()) {
      rewards.pairs += 1;
      rewards.correct += chosen->second > reward ? 1 : 0;
    }
  }
}

}  // namespace longshore::trainer
