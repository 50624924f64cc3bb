// Runs plans without data, on the virtual clock.
#pragma once

#include <cstdint>
#include <vector>

#include "longshore/offload/backends/timeline.h"
#include "longshore/offload/backends/virtual_backend.h"

namespace longshore::offload {

// Runs of one plan in a row that take the same times. All lanes wait for each other between runs,
// so these times do not depend on what ran before, other than by what that left in a processor's
// cache.
struct SimulatedRuns {
  int64_t times = 1;
  double seconds = 0;         // of one of them
  std::vector<Event> events;  // of one of them, with the times since it began
};

// What the lanes would do, and when, if the plans ran one after the other on such hardware. If the
// hardware has a processor cache, the plans have run once before. Of runs in a row only the first,
// which may find something else in the cache, and another that stands for all after it are
// simulated.
std::vector<SimulatedRuns> simulate_runs(const std::vector<PlanRuns>& plans,
                                         const Hardware& hardware);

// All events of these runs one after the other, with the times since the first began.
std::vector<Event> events_of(const std::vector<SimulatedRuns>& runs);

// These two together, of plans that run once each.
std::vector<Event> simulate(const std::vector<const Plan*>& plans, const Hardware& hardware);

}  // namespace longshore::offload
