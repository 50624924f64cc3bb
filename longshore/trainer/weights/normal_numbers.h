// Normal random numbers, many at a time.
#pragma once

#include <cstdint>
#include <span>

namespace longshore::trainer {

// Numbers `first` to `first + values.size()` of a sequence without end (longshore/base/philox.h) of
// normal numbers with mean 0. Each pair is Box & Muller's (1958) of two uniform numbers, computed
// in float64 and rounded once; the same bits on every processor.
void normal_numbers(uint64_t seed, uint32_t sequence, int64_t first, double standard_deviation,
                    std::span<float> values);

}  // namespace longshore::trainer
