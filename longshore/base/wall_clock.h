// The time of day.
#pragma once

#include <chrono>

namespace longshore {

// Seconds since the epoch, to the millisecond. Somebody may set the clock meanwhile.
inline double seconds_since_epoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::floor<std::chrono::milliseconds>(now).count()) / 1e3;
}

}  // namespace longshore
