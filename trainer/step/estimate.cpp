#include "trainer/step/estimate.h"

#include <algorithm>
#include <utility>

#include "offload/walk.h"

namespace longshore::trainer {
namespace {

using offload::Event;
using offload::kLanes;
using offload::Lane;
using offload::Phase;

double& phase_of(const Event& event, Phases& phases) {
  if (event.scope.phase == Phase::optimizer) return phases.optimizer;
  if (event.scope.phase == Phase::forward) return phases.forward;
  return event.recomputes ? phases.recompute : phases.backward;
}

double& wait_for(Lane lane, Phases& phases) {
  if (lane == Lane::host_compute) return phases.exposed_host;
  return lane == Lane::network ? phases.exposed_collective : phases.exposed_transfer;
}

// When other lanes ended what they did: what the device may have waited for.
class Ends {
 public:
  explicit Ends(const std::vector<Event>& events) {
    for (const Event& event : events)
      if (event.lane != Lane::compute) ends_.push_back({event.span.end, event.lane});
    std::sort(ends_.begin(), ends_.end());
  }

  // The lane that was the last to end something when the device went on.
  Lane last(double then) const {
    auto behind = std::upper_bound(ends_.begin(), ends_.end(), std::pair{then, kLanes.back()});
    return behind == ends_.begin() ? Lane::host_to_device : std::prev(behind)->second;
  }

 private:
  std::vector<std::pair<double, Lane>> ends_;
};

}  // namespace

Estimate estimate(const StepPlans& step, const offload::Hardware& hardware) {
  Estimate result{.events = offload::walk(step.of_step(), hardware)};
  Ends ends(result.events);
  double computed = 0;
  for (const Event& event : result.events) {
    result.step_seconds = std::max(result.step_seconds, event.span.end);
    result.busy_seconds[event.lane] += event.span.end - event.span.begin;
  }
  auto wait = [&](double until) {
    constexpr double kLeast = 1e-12;  // below are sums in another order
    if (until - computed <= kLeast) return;
    wait_for(ends.last(until), result.phases) += until - computed;
  };
  for (const Event& event : result.events) {
    if (event.lane != Lane::compute) continue;
    wait(event.span.begin);
    phase_of(event, result.phases) += event.span.end - event.span.begin;
    computed = event.span.end;
  }
  wait(result.step_seconds);
  for (Lane lane : kLanes)
    if (result.busy_seconds[lane] > result.busy_seconds[result.bottleneck])
      result.bottleneck = lane;
  return result;
}

double mfu(const Estimate& estimate, double training_flops, models::Dtype dtype,
           const offload::Hardware& hardware) {
  return training_flops / estimate.step_seconds / hardware.peak_flops_per_second.at(dtype);
}

}  // namespace longshore::trainer
