#include "longshore/trainer/distributed/sum_over.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "longshore/base/error.h"

namespace longshore::trainer {

std::function<void(std::span<double>)> sum_over(World& world) {
  return [&world](std::span<double> values) {
    if (world.size() == 1) return;
    std::string mine(values.size_bytes(), '\0');
    std::memcpy(mine.data(), values.data(), mine.size());
    std::ranges::fill(values, 0.);
    for (const std::string& one : world.gather(mine)) {
      if (one.size() != mine.size())
        throw InternalError("processes sum different numbers of values");
      for (size_t i = 0; i < values.size(); ++i) {
        double value;
        std::memcpy(&value, one.data() + i * sizeof value, sizeof value);
        values[i] += value;
      }
    }
  };
}

}  // namespace longshore::trainer
