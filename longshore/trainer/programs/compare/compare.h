// Step times of remat policies, measured side by side in one process.
//
// A workload is a config. The policies take turns on it, round by round, so that a drift of the
// machine's speed affects all of them alike. Each turn creates the model anew: its memory, its
// first values, and a few first steps, which are not timed because they touch the memory for the
// first time. Batches are synthetic whatever the config's data keys are, since a step's time does
// not depend on its tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longshore/base/log.h"
#include "longshore/base/printable.h"
#include "longshore/trainer/calibration/peak.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/planner/policy_plan.h"
#include "longshore/trainer/step/step.h"

namespace longshore::trainer {

struct Workload {
  std::string name;  // "configs/quickstart.yml", "per_device_batch_size=4", or both
  std::string shown_name() const { return excerpt(name, 400); }  // in messages and tables
  Config config;
  Config loaded;  // the config before its keys of data and checkpoints were changed for comparing
};

// Every config with each value of `sweep`, "key=a,b,c", or every config as it is if `sweep` is "".
// Throws ConfigError for a config that cannot be trained and for two workloads with the same name.
std::vector<Workload> make_workloads(const std::vector<std::string>& configs,
                                     const std::string& sweep,
                                     std::span<const std::string> overrides);

struct Turn {
  std::vector<StepResult> steps;  // from the first step on, including those that are not timed
  std::vector<double> seconds;    // of each timed step, with the device synchronised at its end
  std::optional<double> joules;   // of all timed steps together, if the machine counts energy
  MemoryByKind memory;            // measured
  int64_t used_device_bytes = 0;  // the most that the system reported in use after any step
};

// A policy in a workload.
struct Candidate {
  std::string policy;
  std::optional<PolicyPlan> plan;  // none if the policy does not suit the model
  std::string obstacle;            // why the policy gets no turns; "" if it gets them
  std::vector<Turn> turns;         // one for each round
  std::string failure;             // why the turn after these failed; "" if none has failed
  int failure_code = 0;            // 1 or 2, as the program would exit with for that alone
};

// A workload, with the policies in the order in which they were named. Gains are relative to the
// first of them.
struct Comparison {
  Workload workload;
  ChosenBackend backend;
  double tokens = 0;  // in a step
  double flops = 0;   // of a step, as longshore/trainer/step/flops.h counts them
  Peak peak;          // the highest that was measured before any turn
  std::vector<Candidate> candidates;
};

// Whether any policy has turns.
bool is_measured(const Comparison& comparison);

// A comparison with plans and without turns; touches no device. Throws ConfigError for a policy
// that does not exist or is named twice, and if the target of `hardware` is not the backend's.
Comparison plan_comparison(const Workload& workload, const std::vector<std::string>& policies);

// The number of timed steps of each policy in all turns, and the largest number of turns that they
// are divided between.
struct Amount {
  int64_t steps = 10, rounds = 5;
};

// Measures every policy whose plan fits. A turn that fails ends its policy's turns, but not those
// of the others. After each turn, when its result is in the comparison, `log` gets a line on it:
// the policy, and its step times or how it failed.
void measure(Comparison& comparison, const Amount& amount, const Log& log);

struct TurnRequest {
  int64_t round, rounds;  // `round` counts from 1
  int64_t timed_steps;
};
// Throws if the turn fails.
using TakeTurn = std::function<Turn(const Candidate&, const TurnRequest&)>;

// The loop of measure(), with turns that `take_turn` takes. Each round begins with another policy.
void interleave(std::vector<Candidate>& candidates, const Amount& amount, const TakeTurn& take_turn,
                const Log& log);

}  // namespace longshore::trainer
