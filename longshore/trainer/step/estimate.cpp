#include "longshore/trainer/step/estimate.h"

#include <algorithm>

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

// A run of a plan within a step, or `times` runs in a row that are alike and follow a run like
// them.
struct Stretch {
  const offload::SimulatedRuns* runs = nullptr;
  int64_t times = 1;
  double begin = 0;  // of the first run, where all before it are counted once
};

// The first of runs in a row is a stretch of its own, since another run comes before it: what waits
// at the beginning of a run began to wait at the end of the run before.
std::vector<Stretch> stretches(const std::vector<offload::SimulatedRuns>& step) {
  std::vector<Stretch> result;
  double begin = 0;
  auto add = [&](const offload::SimulatedRuns& runs, int64_t times) {
    if (times == 0) return;
    result.push_back({.runs = &runs, .times = times, .begin = begin});
    begin += runs.seconds;
  };
  for (const offload::SimulatedRuns& runs : step) {
    add(runs, 1);
    add(runs, runs.times - 1);
  }
  return result;
}

// The lane that was busy longest between two times, of those that the device may have waited for.
// Asked for one wait after the other.
class Others {
 public:
  explicit Others(const std::vector<Stretch>& step) {
    for (const Stretch& stretch : step)
      for (const Event& event : stretch.runs->events)
        if (event.lane != Lane::compute)
          spans_[event.lane].push_back(
              {stretch.begin + event.span.begin, stretch.begin + event.span.end});
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
  Estimate result{.runs = offload::simulate_runs(step.runs(), hardware)};
  const std::vector<Stretch> simulated = stretches(result.runs);
  Others others(simulated);
  double computed = 0;
  auto wait = [&](double until, int64_t times) {
    constexpr double kLeast = 1e-12;  // below are sums in another order
    if (until - computed <= kLeast) return;
    wait_for(others.busiest(computed, until), result.phases) +=
        static_cast<double>(times) * (until - computed);
  };
  for (const Stretch& stretch : simulated) {
    const auto times = static_cast<double>(stretch.times);
    result.step_seconds += times * stretch.runs->seconds;
    for (const Event& event : stretch.runs->events) {
      const double seconds = event.span.end - event.span.begin;
      result.busy_seconds[event.lane] += times * seconds;
      if (event.lane != Lane::compute) continue;
      wait(stretch.begin + event.span.begin, stretch.times);
      phase_of(event, result.phases) += times * seconds;
      computed = stretch.begin + event.span.end;
    }
  }
  wait(simulated.back().begin + simulated.back().runs->seconds, 1);
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
