// What lanes did and when: a plan's instructions with the times that a backend recorded.
#pragma once

#include <string>
#include <vector>

#include "offload/backend.h"
#include "offload/plan.h"

namespace longshore::offload {

struct Event {
  Lane lane = Lane::compute;
  std::string name;  // of what is made or moved
  std::string op;    // "move" for copies
  Place place;
  bool recomputes = false;
  int64_t bytes = 0;  // moved; 0 for kernels
  Span span;
};

// The plans ran one after the other while `spans` was recorded. Throws InternalError when the
// numbers of calls do not fit.
std::vector<Event> timeline(const std::vector<const Plan*>& plans, const LaneSpans& spans);

// How well copies hide behind kernels; seconds.
struct Overlap {
  double copying = 0;    // while one of the copy lanes was busy
  double computing = 0;  // while Lane::compute was
  double hidden = 0;     // both at once
  double total = 0;      // from the first begin to the last end
};

Overlap overlap(const std::vector<Event>& events);

}  // namespace longshore::offload
