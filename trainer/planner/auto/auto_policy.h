// remat_policy: auto. Searches the fate of each label (kept on the device, offloaded to host
// memory, computed again), which may differ between the first layers and the others; whether
// parameters, gradients and optimizer state live in host memory; and, with auto_micro_batch, how a
// step is cut into micro-batches.
//
// A formula ranks all combinations by the times of kernels and copies in the forward and in the
// backward pass, for the profile's link and for slower ones. The best few dozen, and every named
// policy, are planned and walked as `plan` does it. So the memory of the choice is exact, its time
// is as good as the walk, and no named policy is faster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/planner/walked_plan.h"

namespace longshore::trainer {

struct AutoChoice {
  // The choice, then what fits, fastest first, then what does not fit.
  std::vector<WalkedPlan> plans;

  const WalkedPlan& chosen() const { return plans[0]; }
};

// `config` has the policy `auto`; the values of its keys that were set are kept. Of plans that are
// equally fast, the one that moves the least data wins. Nothing if no plan fits. Throws ConfigError
// if a label key does not suit the model or the profile describes another kind of machine than
// `target`.
std::optional<AutoChoice> find_policy(const Config& config, models::Target target);

// The same, but throws PlanError if nothing fits, which names the smallest plan, what it lacks and
// what would help.
AutoChoice choose_policy(const Config& config, models::Target target);

struct ChosenPolicy {
  Config config;
  std::string account;  // text() of the choice; "" if there was none to make
};

// If the policy of `config` is `auto`, the config that was chosen, otherwise `config`. Throws as
// choose_policy() does.
ChosenPolicy with_chosen_policy(const Config& config, models::Target target);
// Its config alone; nothing if no plan fits. Throws as find_policy() does.
std::optional<Config> with_found_policy(const Config& config, models::Target target);

}  // namespace longshore::trainer
