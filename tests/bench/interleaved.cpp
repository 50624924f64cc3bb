#include "tests/bench/interleaved.h"

#include <chrono>
#include <vector>

#include "longshore/base/timing.h"

namespace longshore::bench {
namespace {

double seconds_of(const std::function<void()>& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

}  // namespace

Comparison compare(const std::function<void()>& first, const std::function<void()>& second,
                   int rounds) {
  first();
  second();
  std::vector<double> first_seconds, second_seconds, ratios;
  for (int round = 0; round < rounds; ++round) {
    bool reversed = round % 2 == 1;
    if (reversed) second_seconds.push_back(seconds_of(second));
    first_seconds.push_back(seconds_of(first));
    if (!reversed) second_seconds.push_back(seconds_of(second));
    ratios.push_back(first_seconds.back() / second_seconds.back());
  }
  return {.first_seconds = median(first_seconds),
          .second_seconds = median(second_seconds),
          .ratio = median(ratios),
          .ratio_spread = quantile(ratios, 0.75) - quantile(ratios, 0.25)};
}

}  // namespace longshore::bench
