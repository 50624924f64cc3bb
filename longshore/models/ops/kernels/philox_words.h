// draw_philox_words() computes many blocks of Philox4x32-10 (longshore/base/philox.h) at once on a
// processor.
#pragma once

#include <cstdint>

#include "longshore/base/philox.h"

namespace longshore::models {

inline constexpr int kPhiloxLanes = 32;

// The words of kPhiloxLanes blocks, [word][block].
struct PhiloxWords {
  alignas(64) uint32_t words[4][kPhiloxLanes];
};

// Of the blocks whose counters are `first` and those that follow it in their first word; the other
// words are the same.
void draw_philox_words(const PhiloxBlock& first, uint64_t seed, PhiloxWords& words);

}  // namespace longshore::models
