// Bars for HTML pages: inline SVG that stretches with the page, text beside it. Knows nothing of
// what the bars are; colours are the page's, by CSS class.
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
  std::string style;  // its CSS class
  std::string tooltip;
};

struct Bar {
  std::string group = "";    // above it, where the bar before has another
  std::string label, value;  // to the left and to the right of it
  std::vector<BarPart> parts;
  std::optional<std::pair<double, double>> spread;  // a thin line from one to the other
  std::optional<double> marker;                     // a diamond
};

struct Axis {
  std::function<std::string(double)> text;
  enum class Ticks { decimal, binary } ticks = Ticks::decimal;  // at multiples of 1, 2, 5 or of 2^n
};

// All bars over one axis that includes 0.
std::string bar_chart(const std::vector<Bar>& bars, const Axis& axis);

}  // namespace longshore::trainer
