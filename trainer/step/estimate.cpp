#include "trainer/step/estimate.h"

#include <algorithm>

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

// The lane that was busy longest between two times, of those that the device may have waited for.
// Asked for one wait after the other.
class Others {
 public:
  explicit Others(const std::vector<Event>& events) {
    for (const Event& event : events)
      if (event.lane != Lane::compute) spans_[event.lane].push_back(event.span);
  }

  Lane busiest(double begin, double end) {
    Lane longest = Lane::host_to_device;
    double most = 0;
    for (Lane lane : kLanes) {
      const std::vector<offload::Span>& spans = spans_[lane];
      size_t& next = next_[lane];
      while (next < spans.size() && spans[next].end <= begin) ++next;
      double busy = 0;
      for (size_t i = next; i < spans.size() && spans[i].begin < end; ++i)
        busy += std::min(end, spans[i].end) - std::max(begin, spans[i].begin);
      if (busy <= most) continue;
      most = busy;
      longest = lane;
    }
    return longest;
  }

 private:
  offload::PerLane<std::vector<offload::Span>> spans_;
  offload::PerLane<size_t> next_{};  // the first that may not have ended before
};

}  // namespace

Estimate estimate(const StepPlans& step, const offload::Hardware& hardware) {
  Estimate result{.events = offload::walk(step.of_step(), hardware)};
  Others others(result.events);
  double computed = 0;
  for (const Event& event : result.events) {
    result.step_seconds = std::max(result.step_seconds, event.span.end);
    result.busy_seconds[event.lane] += event.span.end - event.span.begin;
  }
  auto wait = [&](double until) {
    constexpr double kLeast = 1e-12;  // below are sums in another order
    if (until - computed <= kLeast) return;
    wait_for(others.busiest(computed, until), result.phases) += until - computed;
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
