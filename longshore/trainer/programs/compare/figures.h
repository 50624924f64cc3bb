// Figures computed from the turns of a comparison.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/programs/compare/compare.h"

namespace longshore::trainer {

// The gain of a policy over the baseline, which is the comparison's first policy.
struct Gain {
  // The part of the step time saved: the median of what the rounds saved, each of them
  // 1 - median / baseline's median. A drift of the machine's speed between rounds cancels out.
  double part = 0;
  double least = 0, most = 0;      // the least and the most that any single round saved
  int64_t saved_device_bytes = 0;  // the baseline's measured peak minus the policy's

  // Whether all rounds agree on which policy is faster.
  bool is_certain() const { return least > 0 || most < 0; }
};

struct Figures {
  double median_seconds = 0, p10_seconds = 0, p90_seconds = 0;  // of all timed steps
  double tokens_per_second = 0, mfu = 0;                        // at the median step
  MemoryByKind memory;                                          // measured
  int64_t used_device_bytes = 0;                                // the most of any turn
  std::optional<Gain> gain;  // none for the baseline, and if the baseline has no turns
  std::optional<double> tokens_per_joule;
  std::optional<double> cost_per_million_tokens;  // in the price's currency
};

// The figures of a candidate that has turns.
Figures figures(const Comparison& comparison, const Candidate& candidate,
                std::optional<double> price_per_device_hour);

// Losses and gradient norms of every step have to be the same to the bit under all policies.
// Returns a line for each policy whose results are not those of the first, with the first step that
// differs. Only policies with micro-batches of the same size are compared, since others, which
// `auto` may choose, add up in another order.
std::vector<std::string> differences(const Comparison& comparison);
std::vector<std::string> differences(const std::vector<Comparison>& comparisons);

// Describes losses and gradient norms without differences: "the same to the bit under all
// policies", or under those with micro-batches of the same size.
std::string equality_text(const std::vector<Comparison>& comparisons);

// Throws Error if a policy has failed by more than what the user can change, or there are
// differences(); else ConfigError if one has failed, and PlanError if none has turns.
void require_sound(const std::vector<Comparison>& comparisons);

}  // namespace longshore::trainer
