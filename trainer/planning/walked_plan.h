// A config that was planned and whose step was walked on the virtual clock: exact in memory, and in
// time as good as the profile. What `auto` compares.
#pragma once

#include <vector>

#include "offload/hardware.h"
#include "trainer/planning/room.h"
#include "trainer/step/estimate.h"

namespace longshore::trainer {

// Of a step: plans that close are as fast as each other. Measured steps differ by more.
inline constexpr double kAsFast = 1e-3;

struct WalkedPlan {
  Config config;  // as it would be written down: without `auto`
  double step_seconds = 0;
  Phases phases;
  double moved_bytes = 0;  // between device and host, both ways
  MemoryByKind memory;
  Room room;
  // No such plan can be made: the first layers or the others, by themselves, read nothing of what
  // they are to offload. Nothing but `config` is set.
  bool is_refused = false;

  bool fits() const { return !is_refused && room.fits(); }
};

WalkedPlan walked_plan(const Config& config, models::Target target,
                       const offload::Hardware& hardware);

// The same of each config, on all cores.
std::vector<WalkedPlan> walked_plans(const std::vector<Config>& configs, models::Target target,
                                     const offload::Hardware& hardware);

// Of device and host together, by which the plan does not fit.
int64_t missing_bytes(const Room& room);

// What fits before what does not, then the faster.
bool is_better(const WalkedPlan& a, const WalkedPlan& b);

// Of a step of the fastest that fits; INFINITY where none does.
double fastest_seconds(const std::vector<WalkedPlan>& plans);

}  // namespace longshore::trainer
