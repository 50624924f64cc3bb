// remat_policy: auto. Searches the action of each label (kept on the device, offloaded to host
// memory, computed again), which may differ between the first layers and the others; whether
// parameters, gradients and optimizer state live in host memory; and, with auto_micro_batch, how a
// step is cut into micro-batches.
//
// A formula ranks all combinations by the times of kernels and copies in the forward and in the
// backward pass, for the profile's link and for slower ones. The best few dozen, and every named
// policy, are planned and simulated as `plan` does it. So the memory of the choice is exact, its
// time is as good as the simulation, and no named policy is faster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/planner/simulated_plan.h"

namespace longshore::trainer {

struct AutoChoice {
  // The choice, then what fits, fastest first, then what does not fit.
  std::vector<SimulatedPlan> plans;

  const SimulatedPlan& chosen() const { return plans[0]; }
};

// What a search led to. Without a choice, `plans` of that `config` are those that do not fit.
struct PolicySearch {
  std::optional<AutoChoice> choice;
  Config config;
  std::vector<SimulatedPlan> plans;
};

// The policy is `auto` and there is a profile; the values of keys that were set are kept. Of plans
// that are equally fast, the one that moves the least data wins. Throws ConfigError if a label key
// does not suit the model or the profile describes another kind of machine than the target.
PolicySearch search_policy(const RunSpec& spec);

// The choice of that search; nothing if no plan fits, which may be known without one.
std::optional<AutoChoice> find_policy(const RunSpec& spec);

// A plan that fits and that this search could have chosen, though it may find a faster one; nothing
// if a quick search finds none. Throws as find_policy() does.
std::optional<SimulatedPlan> find_policy_quickly(const RunSpec& spec);

// If the policy is `auto`, the run with the one that was found, otherwise the run itself; nothing
// if no plan fits. Throws as find_policy() does.
std::optional<RunSpec> with_found_policy(const RunSpec& spec);

}  // namespace longshore::trainer
