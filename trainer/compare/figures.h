// What the turns of a comparison add up to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/compare/compare.h"

namespace longshore::trainer {

// Of a policy over the baseline, the comparison's first.
struct Gain {
  double part = 0;                 // 1 - median / baseline's median: the step time saved
  double least = 0, most = 0;      // the same of each round by itself
  int64_t saved_device_bytes = 0;  // headroom: the baseline's measured peak less the policy's

  // Whether all rounds agree on who is faster.
  bool is_certain() const { return least > 0 || most < 0; }
};

struct Figures {
  double median_seconds = 0, p10_seconds = 0, p90_seconds = 0;  // of all timed steps
  double tokens_per_second = 0, mfu = 0;                        // at the median step
  MemoryByKind memory;                                          // measured
  int64_t used_device_bytes = 0;                                // in any turn, at most
  std::optional<Gain> gain;  // none for the baseline, and where that has no turns
  std::optional<double> tokens_per_joule;
  std::optional<double> cost_per_million_tokens;  // in the price's currency
};

// Of a candidate with turns.
Figures figures(const Comparison& comparison, const Candidate& candidate,
                std::optional<double> price_per_device_hour);

// Losses and gradient norms are the same to the bit whatever the policy, step by step: a line for
// each policy that has others than the first, with the first step of which that is true. Policies
// that cut a step into other micro-batches, as `auto` may, add up in another order.
std::vector<std::string> differences(const Comparison& comparison);
std::vector<std::string> differences(const std::vector<Comparison>& comparisons);

// Where there are no differences, of losses and gradient norms: "the same to the bit under all
// policies", or under those with micro-batches of the same size.
std::string equality_text(const std::vector<Comparison>& comparisons);

// Throws PlanError where no policy has turns, and Error where one has a failure or there are
// differences().
void require_sound(const std::vector<Comparison>& comparisons);

}  // namespace longshore::trainer
