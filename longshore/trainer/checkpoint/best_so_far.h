// A BestSoFar says at which evaluation of a run a metric was the best, and how long it has got no
// better: keep_best and early stopping go by it, and manifests have it.
#pragma once

#include <cstdint>
#include <string>

namespace longshore::trainer {

struct BestSoFar {
  std::string metric;               // as keep_best names it
  int64_t evaluated = 0;            // steps that were done at the last evaluation; 0: none was yet
  int64_t step = 0;                 // the same of the best; 0: the metric never was finite
  double value = 0;                 // of the metric there
  int64_t without_improvement = 0;  // the last so many evaluations

  bool operator==(const BestSoFar&) const = default;
};

enum class Better : uint8_t { smaller, larger };

// Takes the metric after so many steps, unless that is known. Gives whether it is the best so far,
// which of equal ones the first is. As transformers' EarlyStoppingCallback counts, an improvement
// is what exceeds the best before by more than `threshold`; what exceeds it by less is the best all
// the same. What is not finite is neither.
bool note(BestSoFar& best, int64_t steps, double value, Better better, double threshold);

}  // namespace longshore::trainer
