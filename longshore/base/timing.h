// Wall-clock timing, and what is made of several timings.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

namespace longshore {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The quickest of `runs` runs, in seconds: what else runs on a machine only adds.
template <class Work>
double quickest_seconds(int runs, Work work) {
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min(least, seconds_since(start));
  }
  return least;
}

// Below the result lies the part q, from 0 to 1, of the values, of which there is at least one;
// linear between ranks.
inline double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  double rank = q * static_cast<double>(values.size() - 1);
  size_t below = static_cast<size_t>(rank);
  size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (rank - static_cast<double>(below)) * (values[above] - values[below]);
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace longshore
