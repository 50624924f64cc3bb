#include "trainer/planner/walked_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "trainer/planner/policy_plan.h"

namespace longshore::trainer {

WalkedPlan walked_plan(const Config& config, models::Target target,
                       const offload::Hardware& hardware) try {
  const PolicyPlan plan = plan_policy(config, target, hardware);
  WalkedPlan walked{.config = config,
                    .step_seconds = plan.estimate->step_seconds,
                    .phases = plan.estimate->phases,
                    .memory = plan.memory,
                    .room = plan.room};
  for (const offload::WalkedRuns& runs : plan.estimate->runs)
    for (const offload::Event& event : runs.events)
      if (event.lane != offload::Lane::compute)
        walked.moved_bytes += static_cast<double>(runs.times) * static_cast<double>(event.bytes);
  return walked;
} catch (const ConfigError& error) {
  return {.config = config, .refusal = error.what()};
}

std::vector<WalkedPlan> walked_plans(const std::vector<Config>& configs, models::Target target,
                                     const offload::Hardware& hardware) {
  std::vector<WalkedPlan> walked(configs.size());
  parallel_for(configs.size(),
               [&](size_t i) { walked[i] = walked_plan(configs[i], target, hardware); });
  return walked;
}

bool is_better(const WalkedPlan& a, const WalkedPlan& b) {
  return std::pair{!a.fits(), a.step_seconds} < std::pair{!b.fits(), b.step_seconds};
}

double fastest_seconds(const std::vector<WalkedPlan>& plans) {
  double fastest = INFINITY;
  for (const WalkedPlan& one : plans)
    if (one.fits()) fastest = std::min(fastest, one.step_seconds);
  return fastest;
}

}  // namespace longshore::trainer
