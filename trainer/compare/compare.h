// Step times of remat policies, measured side by side in one process.
//
// A workload is a config; in it the policies take turns, round by round, so that a machine's drifts
// hit all alike. For each turn the model is made anew: its memory, its first values, and its first
// steps, which are not timed, as they pay for first touches. Batches are synthetic, whatever the
// config says of data: what a step takes does not depend on its tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/config/backend_choice.h"
#include "trainer/config/config.h"
#include "trainer/planning/peak.h"
#include "trainer/planning/plan_report.h"
#include "trainer/step/step.h"

namespace longshore::trainer {

struct Workload {
  std::string name;  // "configs/quickstart.yml", "per_device_batch_size=4", or both
  Config config;
  Config loaded;  // before what compare changes of it: data, checkpoints
};

// Every config with each value of `sweep`, "key=a,b,c", or as it is where that is "". Throws
// ConfigError for what cannot be trained and for workloads that are the same.
std::vector<Workload> make_workloads(const std::vector<std::string>& configs,
                                     const std::string& sweep,
                                     std::span<const std::string> overrides);

struct Turn {
  std::vector<StepResult> steps;  // from the first on, those that are not timed too
  std::vector<double> seconds;    // of the timed ones, synchronised
  std::optional<double> joules;   // of the timed ones, where the machine counts them
  MemoryByKind memory;            // measured
  int64_t used_device_bytes = 0;  // as the system tells, at most after any step
};

// A policy in a workload.
struct Candidate {
  std::string policy;
  std::optional<PolicyPlan> plan;  // none where the policy does not suit the model
  std::string obstacle;            // why it is given no turns; "" where it is
  std::vector<Turn> turns;         // one a round
  std::string failure;             // of the turn after these, which was the last; "" where all went
};

// A workload, with the policies in the order in which they were named: gains are over the first.
struct Comparison {
  Workload workload;
  ChosenBackend backend;
  double tokens = 0;  // of a step
  double flops = 0;   // of a step, trainer/step/flops.h
  Peak peak;          // the highest that was found beside the turns
  std::vector<Candidate> candidates;
};

// Whether any policy has turns.
bool is_measured(const Comparison& comparison);

// With plans, without turns; touches no device. Throws ConfigError for a policy that there is not
// or that is named twice, and for a `hardware` of another target than the backend's.
Comparison plan_comparison(const Workload& workload, const std::vector<std::string>& policies);

// What a turn took, and who had it: when it is over, and is one of `turns` or the `failure`.
using Say = std::function<void(const std::string& line)>;

// How many timed steps each policy has in all, and in how many turns at most.
struct Amount {
  int64_t steps = 10, rounds = 5;
};

// Gives every policy that fits its steps. Says how each turn went. One that fails ends its policy's
// turns, not those of others.
void measure(Comparison& comparison, const Amount& amount, const Say& say);

// What measure() does with turns as `take_turn` gives them, or fails to by what it throws. Every
// round begins with another policy.
struct TurnRequest {
  int64_t round, rounds;  // from 1
  int64_t timed_steps;
};
using TakeTurn = std::function<Turn(const Candidate&, const TurnRequest&)>;
void interleave(std::vector<Candidate>& candidates, const Amount& amount, const TakeTurn& take_turn,
                const Say& say);

}  // namespace longshore::trainer
