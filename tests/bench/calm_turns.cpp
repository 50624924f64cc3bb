#include "tests/bench/calm_turns.h"

#include <algorithm>

#include "longshore/base/timing.h"

namespace longshore::bench {

CalmTurns::CalmTurns(const std::vector<std::unique_ptr<Contender>>& contenders)
    : contenders_(contenders) {
  constexpr int kFirst = 20;
  for (const auto& contender : contenders_) contender->step();
  for (int i = 0; i < kFirst; ++i) first();
}

std::vector<double> CalmTurns::ratios(int rounds) {
  std::vector<std::vector<double>> ratios(contenders_.size());
  ratios[0] = {1};
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 1; i < contenders_.size(); ++i) ratios[i].push_back(ratio(i));
  std::vector<double> medians;
  for (const std::vector<double>& list : ratios) medians.push_back(median(list));
  return medians;
}

double CalmTurns::first_seconds() const { return *std::ranges::min_element(seconds_); }

double CalmTurns::first() { return seconds_.emplace_back(contenders_[0]->step()); }

double CalmTurns::calm() const { return 1.1 * quantile(seconds_, 0.25); }

double CalmTurns::ratio(size_t which) {
  constexpr int kAttempts = 30;
  double ratio = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double before = first();
    if (attempt + 1 < kAttempts && before > calm()) continue;
    const double one = contenders_[which]->step(), behind = first();
    ratio = 2 * one / (before + behind);
    if (behind <= calm()) break;
  }
  return ratio;
}

}  // namespace longshore::bench
