// round_up() rounds up to whole steps, and ceil_div() counts them.
#pragma once

#include <cstdint>

namespace longshore {

// The least multiple of `step` that is not below `value`, neither being negative.
constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// The quotient, rounded up; neither is negative.
constexpr int64_t ceil_div(int64_t value, int64_t step) { return (value + step - 1) / step; }

}  // namespace longshore
