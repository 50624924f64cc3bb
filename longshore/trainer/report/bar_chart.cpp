#include "longshore/trainer/report/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "longshore/trainer/report/html_page.h"

namespace longshore::trainer {
namespace {

// Maps values to positions along the axis.
class Scale {
 public:
  Scale(const std::vector<Bar>& bars, Axis::Ticks ticks) {
    for (const Bar& bar : bars) {
      for (const BarPart& part : bar.parts) include(part.from), include(part.to);
      if (bar.spread) include(bar.spread->first), include(bar.spread->second);
      if (bar.marker) include(*bar.marker);
    }
    if (high_ == low_)
      high_ = 0.5;  // all values are 0, so there is only that tick
    else
      ticks_ = trainer::ticks(low_, high_, ticks);
    double margin = 0.03 * (high_ - low_);
    if (low_ < 0) low_ -= margin;
    if (high_ > 0) high_ += margin;
  }

  double percent(double value) const { return 100 * (value - low_) / (high_ - low_); }

  const std::vector<double>& ticks() const { return ticks_; }

 private:
  void include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }

  double low_ = 0, high_ = 0;
  std::vector<double> ticks_{0};
};

std::string line(const char* style, double x1, double x2, const char* y1, const char* y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.3f}%\" x2=\"{:.3f}%\" y1=\"{}\" y2=\"{}\"/>",
                     style, x1, x2, y1, y2);
}

std::string track(const Bar& bar, const Scale& scale) {
  std::string svg = "<svg class=\"track\">";
  for (double tick : scale.ticks())
    svg += line(tick == 0 ? "zero" : "grid", scale.percent(tick), scale.percent(tick), "0", "100%");
  for (const BarPart& part : bar.parts) {
    double from = scale.percent(std::min(part.from, part.to)),
           to = scale.percent(std::max(part.from, part.to));
    svg += fmt::format(
        "<rect class=\"{}\" x=\"{:.3f}%\" width=\"{:.3f}%\" y=\"15%\" height=\"70%\">"
        "<title>{}</title></rect>",
        part.style, from, to - from, html_escaped(part.tooltip));
  }
  if (bar.spread) {
    double low = scale.percent(bar.spread->first), high = scale.percent(bar.spread->second);
    svg += line("spread", low, high, "50%", "50%") + line("spread", low, low, "32%", "68%") +
           line("spread", high, high, "32%", "68%");
  }
  if (bar.marker)
    svg += fmt::format(
        "<svg class=\"marker\" x=\"{:.3f}%\" y=\"50%\"><path d=\"M0-7 5 0 0 7-5 0z\"/></svg>",
        scale.percent(*bar.marker));
  return svg + "</svg>";
}

std::string axis_line(const Scale& scale, const Axis& axis) {
  std::string html = "<div class=\"row\"><span></span><div class=\"axis\">";
  for (double tick : scale.ticks())
    html += fmt::format("<span style=\"left:{:.3f}%\">{}</span>", scale.percent(tick),
                        html_escaped(axis.text(tick)));
  return html + "</div><span></span></div>";
}

}  // namespace

std::string bar_chart(const std::vector<Bar>& bars, const Axis& axis) {
  Scale scale(bars, axis.ticks);
  std::string html = "<div class=\"chart\">\n";
  std::string group;
  for (const Bar& bar : bars) {
    if (bar.group != group)
      html += "<div class=\"group\">" + html_escaped(group = bar.group) + "</div>\n";
    html += fmt::format(
        "<div class=\"row\"><span class=\"label\">{}</span>{}<span "
        "class=\"value\">{}</span></div>\n",
        html_escaped(bar.label), track(bar, scale), html_escaped(bar.value));
  }
  return html + axis_line(scale, axis) + "\n</div>\n";
}

}  // namespace longshore::trainer
