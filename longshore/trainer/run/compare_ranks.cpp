#include "longshore/trainer/run/compare_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "longshore/base/error.h"

namespace longshore::trainer {
namespace {

double read_seconds(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error("comparing ranks: found " + std::to_string(text.size()) +
                " bytes of another program, expected the seconds of one of the processes");
  return seconds;
}

}  // namespace

std::optional<RankFigures> compare_ranks(const StepFigures& steps, World& world) {
  if (world.size() == 1 || steps.steps() == 0) return std::nullopt;
  std::vector<double> seconds;
  for (const std::string& text :
       world.gather(fmt::format("{}", steps.summary().median_step_seconds)))
    seconds.push_back(read_seconds(text));
  const auto [fastest, slowest] = std::ranges::minmax_element(seconds);
  return RankFigures{.count = world.size(),
                     .slowest = slowest - seconds.begin(),
                     .slowest_median_step_seconds = *slowest,
                     .fastest_median_step_seconds = *fastest};
}

}  // namespace longshore::trainer
