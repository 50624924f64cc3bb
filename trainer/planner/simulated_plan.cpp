#include "trainer/planner/simulated_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "trainer/planner/policy_plan.h"

namespace longshore::trainer {

SimulatedPlan simulated_plan(const Config& config, models::Target target,
                             const offload::Hardware& hardware) try {
  const PolicyPlan plan = plan_policy(config, target, hardware);
  SimulatedPlan simulated{.config = config,
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
  return {.config = config, .refusal = error.what()};
}

std::vector<SimulatedPlan> simulated_plans(const std::vector<Config>& configs,
                                           models::Target target,
                                           const offload::Hardware& hardware) {
  std::vector<SimulatedPlan> simulated(configs.size());
  parallel_for(configs.size(),
               [&](size_t i) { simulated[i] = simulated_plan(configs[i], target, hardware); });
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
