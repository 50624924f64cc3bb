// Random plans whose results are known: additions on the device and moves on both copy lanes,
// among few sizes and with short lives, so that places change hands between lanes all the time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

struct RandomPlan {
  Plan plan;
  // Pinned host arguments: what to give, and what must come out, to the bit.
  std::map<std::string, std::vector<float>> inputs, outputs;
};

RandomPlan random_plan(uint32_t seed);

}  // namespace longshore::offload
