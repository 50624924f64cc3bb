// Times two contenders in turns, so that whatever else the machine does slows both alike.
#pragma once

#include <functional>

namespace longshore::bench {

struct Comparison {
  double first_seconds = 0, second_seconds = 0;  // medians
  // Of first_seconds / second_seconds in each round: the median, and how far apart the quartiles
  // are.
  double ratio = 0, ratio_spread = 0;
};

// `rounds` rounds after one that does not count, every other one in reverse order. A contender must
// end synchronised.
Comparison compare(const std::function<void()>& first, const std::function<void()>& second,
                   int rounds);

}  // namespace longshore::bench
