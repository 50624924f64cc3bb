// Bar charts for HTML pages: inline SVG that stretches with the page, with text next to it. The
// page defines the colours by CSS class.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longshore::trainer {

std::string html_escaped(const std::string& text);

struct BarPart {
  double from = 0, to = 0;
  std::string style;  // a CSS class
  std::string tooltip;
};

struct Bar {
  std::string group = "";    // printed above the bar if the previous one is in another group
  std::string label, value;  // to the left and to the right of the bar
  std::vector<BarPart> parts;
  std::optional<std::pair<double, double>> spread;  // a thin line between two values
  std::optional<double> marker;                     // a diamond
};

struct Axis {
  std::function<std::string(double)> text;
  // Ticks are at multiples of 1, 2 or 5 times a power of ten, or at multiples of a power of two.
  enum class Ticks { decimal, binary } ticks = Ticks::decimal;
};

// A chart of all bars on one axis, which includes 0.
std::string bar_chart(const std::vector<Bar>& bars, const Axis& axis);

}  // namespace longshore::trainer
