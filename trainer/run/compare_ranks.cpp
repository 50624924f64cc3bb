#include "trainer/run/compare_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace longshore::trainer {

std::optional<RankFigures> compare_ranks(const StepFigures& steps, World& world) {
  if (world.size() == 1 || steps.steps() == 0) return std::nullopt;
  std::vector<double> seconds;
  for (const std::string& text :
       world.gather(fmt::format("{}", steps.summary().median_step_seconds)))
    seconds.push_back(std::stod(text));
  const auto [fastest, slowest] = std::ranges::minmax_element(seconds);
  return RankFigures{.count = world.size(),
                     .slowest = slowest - seconds.begin(),
                     .slowest_median_step_seconds = *slowest,
                     .fastest_median_step_seconds = *fastest};
}

}  // namespace longshore::trainer
