// Timelines: a plan's instructions with the times at which lanes ran them, as a backend recorded.
#pragma once

#include <string>
#include <vector>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

const char* name(Phase phase);  // "forward"

struct Event {
  Lane lane = Lane::compute;
  std::string name;  // the name of what is computed or moved
  std::string op;    // "move" for copies
  Scope scope;
  bool recomputes = false;
  int64_t bytes = 0;  // how many are moved; 0 for kernels
  Span span;
};

// The instructions of plans that ran one after the other while `spans` was recorded. Throws
// InternalError if the numbers of calls on the lanes do not match those of the plans' instructions.
std::vector<Event> timeline(const std::vector<const Plan*>& plans, const LaneSpans& spans);

// How well copies overlap with kernels, in seconds.
struct Overlap {
  double copying = 0;    // how long at least one of the copy lanes was busy
  double computing = 0;  // how long Lane::compute was busy
  double hidden = 0;     // how long both were busy at once
  double total = 0;      // from the begin of the first event to the end of the last
};

Overlap overlap(const std::vector<Event>& events);

}  // namespace longshore::offload
