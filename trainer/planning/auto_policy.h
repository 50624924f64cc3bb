// remat_policy: auto. Searches what each label can do (stay on the device, go to host memory, be
// computed again), in the first layers one way and in the others another; whether parameters,
// gradients and optimizer state live in host memory; and, with auto_micro_batch, how a step is cut
// into micro-batches.
//
// A formula ranks all of it: kernels against copies, in the forward and in the backward pass, on
// links as the profile says and on slower ones. The best few dozen, and every named policy, are
// planned and walked as `plan` does it. So what is chosen is exact in memory, and in time as good
// as the walk; no named policy is faster.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/planning/auto_search_space.h"
#include "trainer/planning/walked_plan.h"

namespace longshore::trainer {

struct AutoChoice {
  // The choice, then what fits, fastest first, then what does not fit.
  std::vector<WalkedPlan> plans;

  const WalkedPlan& chosen() const { return plans[0]; }
};

// For a config whose policy is `auto`. Keys that somebody set stay. Where a plan is as fast without
// moving something, it is not moved. Throws PlanError when nothing fits: the smallest plan found,
// what is missing and what would help; ConfigError when a label key does not suit the model, or the
// profile is of another kind of machine than `target`.
AutoChoice choose_policy(const Config& config, models::Target target);

// `config`, or what was chosen in its place, with the choice's account in `account`. Throws as
// choose_policy() does.
Config with_chosen_policy(const Config& config, models::Target target, std::string& account);

// "full", or "first 24 layers: ...", and what lives on the host.
std::string summary(const Config& config);

// The keys that were chosen, and their values as a config says them.
std::vector<std::pair<std::string, std::string>> chosen_keys(const Config& config);

// The choice, its keys as a config says them, and why others lost.
std::string text(const AutoChoice& choice);

}  // namespace longshore::trainer
