// Times contenders against the first of them, on a machine whose speed others change by a factor
// of two within seconds: a step is held against the first's own just before and behind it, and
// counts while these are as quick as a quarter of all of the first's steps.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tests/bench/contender.h"

namespace longshore::bench {

class CalmTurns {
 public:
  // Each contender makes a step that does not count.
  explicit CalmTurns(const std::vector<std::unique_ptr<Contender>>& contenders);

  // Of each contender, the median of so many steps over the first's.
  std::vector<double> ratios(int rounds);
  // The first's quickest step.
  double first_seconds() const;

 private:
  double first();              // a step of the first; its seconds
  double calm() const;         // what such a step takes at most while nobody disturbs it
  double ratio(size_t which);  // of a step of contenders[which]

  const std::vector<std::unique_ptr<Contender>>& contenders_;
  std::vector<double> seconds_;  // of the first's steps
};

}  // namespace longshore::bench
