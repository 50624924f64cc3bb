// Ticks of a chart's axis: where they are, and what they say.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace longshore::trainer {

struct Axis {
  std::function<std::string(double)> text;
  // Ticks are at multiples of 1, 2 or 5 times a power of ten, or at multiples of a power of two.
  enum class Ticks { decimal, binary } ticks = Ticks::decimal;
};

extern const Axis kNumberAxis;   // "0.002"
extern const Axis kSecondsAxis;  // "0.5 s"
extern const Axis kPercentAxis;  // "50 %", of a fraction
extern const Axis kBytesAxis;    // "1.5 GiB"

// From `low` to `high`, which is more, at most so many.
std::vector<double> ticks(double low, double high, Axis::Ticks kind, double most = 5);

}  // namespace longshore::trainer
