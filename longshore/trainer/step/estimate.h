// estimate() predicts how long a planned step takes on a machine, by its profile.
#pragma once

#include <string>
#include <vector>

#include "longshore/offload/execution/simulate.h"
#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {

// The phases of a step in seconds, which add up to it. Kernels count where they run; what is left
// is time in which the device waits.
struct Phases {
  double forward = 0, recompute = 0, backward = 0, optimizer = 0;
  double exposed_transfer = 0;    // for a copy
  double exposed_host = 0;        // for an update on the host
  double exposed_collective = 0;  // for other devices

  double total() const {
    return forward + recompute + backward + optimizer + exposed_transfer + exposed_host +
           exposed_collective;
  }
};

struct Estimate {
  double step_seconds = 0;
  Phases phases;
  offload::PerLane<double> busy_seconds{};
  offload::Lane bottleneck = offload::Lane::compute;  // the busiest
  std::vector<offload::SimulatedRuns> runs;           // of the step
};

// A step among others like it, so that a deferred update counts where it is made.
Estimate estimate(const StepPlans& step, const offload::Hardware& hardware);

// Model FLOPs a second over the profile's peak for that dtype.
double mfu(const Estimate& estimate, double training_flops, models::Dtype dtype,
           const offload::Hardware& hardware);

}  // namespace longshore::trainer
