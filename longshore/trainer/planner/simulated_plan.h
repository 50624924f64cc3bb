// A config that was planned and whose step was simulated on the virtual clock. `auto` compares
// these. Their memory is exact; their times are as good as the profile.
#pragma once

#include <string>
#include <vector>

#include "longshore/offload/hardware/hardware.h"
#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/step/estimate.h"

namespace longshore::trainer {

// Two plans count as equally fast if their step times differ by no more than this part, which is
// less than the times of measured steps vary.
inline constexpr double kEqualTimeTolerance = 1e-3;

struct SimulatedPlan {
  Config config;  // with the policy that was planned in place of `auto`
  double step_seconds = 0;
  Phases phases;
  double moved_bytes = 0;  // between device and host, both ways
  MemoryByKind memory;
  Room room;
  // Why there is no such plan, because either the first layers or the others read none of the
  // values that they are to offload, say. Only `config` is set then.
  std::string refusal;

  bool is_refused() const { return !refusal.empty(); }
  bool fits() const { return !is_refused() && room.fits(); }
};

// Of a run that has a profile.
SimulatedPlan simulated_plan(const RunSpec& spec);

// The plan of each, computed on all cores.
std::vector<SimulatedPlan> simulated_plans(const std::vector<RunSpec>& specs);

// Whether `a` is better than `b`: a plan that fits is better than one that does not; if that does
// not decide, the faster one is.
bool is_better(const SimulatedPlan& a, const SimulatedPlan& b);

// The step time of the fastest plan that fits; INFINITY if none does.
double fastest_seconds(const std::vector<SimulatedPlan>& plans);

}  // namespace longshore::trainer
