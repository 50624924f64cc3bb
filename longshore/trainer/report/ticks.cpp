#include "longshore/trainer/report/ticks.h"

#include <fmt/format.h>

#include <cmath>

namespace longshore::trainer {
namespace {

// The distance between two ticks, at least `least`.
double distance(double least, Axis::Ticks kind) {
  if (kind == Axis::Ticks::binary) return std::exp2(std::ceil(std::log2(least)));
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (double factor : {1, 2, 5})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

std::string bytes(double bytes) {
  const double size = std::abs(bytes);
  return size == 0        ? "0"
         : size >= 0x1p30 ? fmt::format("{:g} GiB", bytes / 0x1p30)
         : size >= 0x1p20 ? fmt::format("{:g} MiB", bytes / 0x1p20)
         : size >= 0x1p10 ? fmt::format("{:g} KiB", bytes / 0x1p10)
                          : fmt::format("{:g} bytes", bytes);
}

}  // namespace

const Axis kNumberAxis{.text = [](double value) { return fmt::format("{:g}", value); }};
const Axis kSecondsAxis{.text = [](double seconds) { return fmt::format("{:g} s", seconds); }};
const Axis kPercentAxis{.text = [](double part) { return fmt::format("{:g} %", 100 * part); }};
const Axis kBytesAxis{.text = bytes, .ticks = Axis::Ticks::binary};

std::vector<double> ticks(double low, double high, Axis::Ticks kind, double most) {
  const double step = distance((high - low) / most, kind);
  const double first = std::ceil(low / step - 1e-9);
  std::vector<double> ticks;
  for (int i = 0; i <= static_cast<int>(most); ++i) {
    const double tick = (first + i) * step + 0.0;  // not -0
    if (!(tick <= high + 1e-9 * step)) break;
    // Far from zero doubles may not tell two of them apart.
    if (ticks.empty() || tick > ticks.back()) ticks.push_back(tick);
  }
  return ticks;
}

}  // namespace longshore::trainer
