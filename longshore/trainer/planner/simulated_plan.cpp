#include "longshore/trainer/planner/simulated_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/parallel.h"
#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {

SimulatedPlan simulated_plan(const RunSpec& spec) try {
  const PolicyPlan plan = plan_policy(spec);
  SimulatedPlan simulated{.config = spec.config(),
                          .step_seconds = plan.estimate->step_seconds,
                          .phases = plan.estimate->phases,
                          .memory = plan.memory,
                          .room = plan.room};
  for (const offload::SimulatedRuns& runs : plan.estimate->runs)
    for (const offload::Event& event : runs.events)
      if (event.lane != offload::Lane::compute)
        simulated.moved_bytes += static_cast<double>(runs.times) * static_cast<double>(event.bytes);
  return simulated;
} catch (const ConfigError& error) {
  return {.config = spec.config(), .refusal = error.what()};
}

std::vector<SimulatedPlan> simulated_plans(const std::vector<RunSpec>& specs) {
  std::vector<SimulatedPlan> simulated(specs.size());
  parallel_for(specs.size(), [&](size_t i) { simulated[i] = simulated_plan(specs[i]); });
  return simulated;
}

bool is_better(const SimulatedPlan& a, const SimulatedPlan& b) {
  return std::pair{!a.fits(), a.step_seconds} < std::pair{!b.fits(), b.step_seconds};
}

double fastest_seconds(const std::vector<SimulatedPlan>& plans) {
  double fastest = INFINITY;
  for (const SimulatedPlan& one : plans)
    if (one.fits()) fastest = std::min(fastest, one.step_seconds);
  return fastest;
}

}  // namespace longshore::trainer
