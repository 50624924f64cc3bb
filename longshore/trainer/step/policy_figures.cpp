#include "longshore/trainer/step/policy_figures.h"

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

#include "longshore/trainer/step/answers.h"

namespace longshore::trainer {
namespace {

const std::vector<float>& floats(const data::Batch& batch, const char* name) {
  return std::get<std::vector<float>>(batch.inputs.at(name));
}

}  // namespace

void add_policy_figures(const models::PolicyGradientOptions& options, const data::Batch& batch,
                        std::span<const float> log_probs, PolicyFigures& figures) {
  const std::vector<float>&old = floats(batch, data::kOldLogProbs),
        &advantages = floats(batch, data::kAdvantages);
  const std::vector<int32_t>& targets = batch[data::kTargets];
  const bool is_of_sequence = options.ratio_of == models::PolicyUnit::sequence;
  for (const Answer& answer : answers_of(batch)) {
    auto log_ratio = [&](size_t at) {
      return std::isnan(old[at]) ? 0 : static_cast<double>(log_probs[at]) - old[at];
    };
    auto for_each_token = [&](auto use) {
      for (auto at = static_cast<size_t>(answer.begin); at < static_cast<size_t>(answer.end); ++at)
        if (targets[at] != data::kIgnoredTarget) use(at);
    };
    double common = 0;
    for_each_token(
        [&](size_t at) { common += log_ratio(at) / static_cast<double>(answer.tokens); });
    for_each_token([&](size_t at) {
      const double own = log_ratio(at), ratio = std::exp(is_of_sequence ? common : own);
      const double bounded = std::clamp(ratio, 1 - options.clip_low, 1 + options.clip_high);
      figures.tokens += 1;
      figures.ratios += ratio;
      figures.clipped += bounded * advantages[at] < ratio * advantages[at] ? 1 : 0;
      figures.divergence += std::expm1(own) - own;
    });
  }
}

}  // namespace longshore::trainer
