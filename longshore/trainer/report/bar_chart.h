// A bar chart for HTML pages: inline SVG that stretches with the page, with text next to it. The
// page defines the colours by CSS class.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longshore/trainer/report/ticks.h"

namespace longshore::trainer {

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

// A chart of all bars on one axis, which includes 0.
std::string bar_chart(const std::vector<Bar>& bars, const Axis& axis);

}  // namespace longshore::trainer
