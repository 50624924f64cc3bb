#include "longshore/trainer/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "longshore/trainer/report/html_page.h"

namespace longshore::trainer {
namespace {

constexpr size_t kMostPoints = 600;             // of a series
constexpr double kWidth = 1000, kHeight = 240;  // in the SVG's units; the page stretches them
constexpr int kColors = 8, kDashes = 8;

// The values that a chart shows, and where they are.
class Frame {
 public:
  explicit Frame(const LineChart& chart) {
    for (const Series& series : chart.series)
      for (const Point& point : series.points) include(point);
    for (const Mark& mark : chart.marks) include(mark.at);
    if (is_empty()) return;
    if (left_ == right_) left_ -= 0.5, right_ += 0.5;
    const double height = top_ - bottom_, most = std::max(std::abs(top_), std::abs(bottom_));
    // What differs by less than texts of numbers show is drawn as a level line.
    const double room = height > 1e-6 * most ? 0.04 * height : most / 10;
    const bool is_above_zero = bottom_ >= 0;
    bottom_ -= room > 0 ? room : 0.5;
    top_ += room > 0 ? room : 0.5;
    if (is_above_zero) bottom_ = std::max(bottom_, 0.0);
  }

  bool is_empty() const { return left_ > right_; }
  // Not what leaves no room for a difference of two.
  static bool shows(const Point& point) { return std::abs(point.y) < 1e300; }
  // Parts of the width from the left, and of the height from the top.
  double across(double x) const { return (x - left_) / (right_ - left_); }
  double down(double y) const { return (top_ - y) / (top_ - bottom_); }

  std::vector<double> x_ticks() const {
    std::vector<double> all = ticks(left_, right_, Axis::Ticks::decimal);
    std::erase_if(all, [](double x) { return x != std::floor(x); });  // there are no half steps
    return all;
  }
  std::vector<double> y_ticks(const Axis& axis) const {
    return ticks(bottom_, top_, axis.ticks, 4);
  }

 private:
  void include(const Point& point) {
    if (!shows(point)) return;
    left_ = std::min(left_, point.x);
    right_ = std::max(right_, point.x);
    bottom_ = std::min(bottom_, point.y);
    top_ = std::max(top_, point.y);
  }

  double left_ = INFINITY, right_ = -INFINITY, bottom_ = INFINITY, top_ = -INFINITY;
};

// Each of many has a colour and dashes that no other has together.
std::string style_of(const Series& series) {
  return fmt::format("series-{} dash-{}", series.color % kColors,
                     (series.color + series.color / kColors) % kDashes);
}

std::string path(const Series& series, const Frame& frame) {
  std::string d;
  bool is_down = false;  // the pen
  for (const Point& point : thinned(series.points, kMostPoints)) {
    if (frame.shows(point))
      d += fmt::format("{}{:.1f} {:.1f}", is_down ? "L" : "M", kWidth * frame.across(point.x),
                       kHeight * frame.down(point.y));
    is_down = frame.shows(point);
  }
  return fmt::format("<path class=\"line {}\" d=\"{}\"/>", style_of(series), d);
}

std::string placed(const char* style, const Frame& frame, const Point& at,
                   const std::string& text) {
  return fmt::format("<span class=\"{}\" style=\"left:{:.2f}%;top:{:.2f}%\">{}</span>", style,
                     100 * frame.across(at.x), 100 * frame.down(at.y), html_escaped(text));
}

std::string dots(const Series& series, const Frame& frame) {
  std::string html;
  for (const Point& point : thinned(series.points, kMostPoints))
    if (frame.shows(point)) html += placed(("dot " + style_of(series)).c_str(), frame, point, "");
  return html;
}

// What the script reads out: the drawn points, each series with x's of its own.
std::string values_json(const LineChart& chart) {
  nlohmann::ordered_json series = nlohmann::ordered_json::array();
  for (const Series& one : chart.series) {
    nlohmann::ordered_json x = nlohmann::ordered_json::array(), y = x;
    for (const Point& point : thinned(one.points, kMostPoints)) {
      if (!Frame::shows(point)) continue;
      x.push_back(point.x);
      y.push_back(nlohmann::ordered_json::parse(fmt::format("{:.6g}", point.y)));
    }
    series.push_back({{"name", one.name}, {"x", x}, {"y", y}});
  }
  std::string text = nlohmann::ordered_json{{"x", chart.x_name}, {"series", series}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  // Or an end of the element might be in it.
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> kept;
  const size_t places = std::max<size_t>(most / 2, 1);
  for (size_t place = 0; place < places; ++place) {
    const size_t begin = points.size() * place / places, end = points.size() * (place + 1) / places;
    size_t least = end, largest = end;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(points[i].y)) continue;
      if (least == end || points[i].y < points[least].y) least = i;
      if (largest == end || points[i].y > points[largest].y) largest = i;
    }
    if (least == end) {
      kept.push_back(points[begin]);  // a gap
      continue;
    }
    kept.push_back(points[std::min(least, largest)]);
    if (least != largest) kept.push_back(points[std::max(least, largest)]);
  }
  if (kept.back().x < points.back().x) kept.push_back(points.back());
  return kept;
}

std::string line_chart(const LineChart& chart) {
  const Frame frame(chart);
  if (frame.is_empty()) return "";
  std::string grid, y_texts, x_texts;
  for (double y : frame.y_ticks(chart.y_axis)) {
    grid +=
        fmt::format("<path class=\"grid\" d=\"M0 {0:.1f}H{1}\"/>", kHeight * frame.down(y), kWidth);
    y_texts += fmt::format("<span style=\"top:{:.2f}%\">{}</span>", 100 * frame.down(y),
                           html_escaped(chart.y_axis.text(y)));
  }
  for (double x : frame.x_ticks())
    x_texts += fmt::format("<span style=\"left:{:.2f}%\">{:.0f}</span>", 100 * frame.across(x), x);
  std::string lines, points;
  std::vector<std::string> names;
  for (const Series& series : chart.series) {
    lines += path(series, frame);
    if (series.has_dots) points += dots(series, frame);
    names.push_back(
        fmt::format("<svg class=\"key\" viewBox=\"0 0 24 8\"><path class=\"line {}\" "
                    "d=\"M0 4H24\"/></svg>{}",
                    style_of(series), html_escaped(series.name)));
  }
  std::string notes;
  for (size_t i = 0; i < chart.marks.size(); ++i) {
    if (frame.shows(chart.marks[i].at))
      points += placed("mark", frame, chart.marks[i].at, fmt::format("{}", i + 1));
    notes += "<li>" + html_escaped(chart.marks[i].text) + "</li>";
  }
  if (!notes.empty()) notes = "<ol class=\"notes\">" + notes + "</ol>\n";
  return fmt::format(
      "<figure class=\"plot\"><figcaption><h3>{0}</h3>{1}</figcaption>\n"
      "<div class=\"plot-area\"><div class=\"y-axis\">{2}</div>"
      "<div class=\"canvas\" tabindex=\"0\" role=\"img\" aria-label=\"{0}, by {3}\">"
      "<svg viewBox=\"0 0 {4} {5}\" preserveAspectRatio=\"none\">{6}{7}</svg>{8}"
      "<span class=\"hair\"></span></div><div class=\"x-axis\">{9}</div></div>\n"
      "<output class=\"reading\">&nbsp;</output>\n{10}"
      "<script type=\"application/json\">{11}</script></figure>\n",
      html_escaped(chart.title), chart.series.size() > 1 ? legend(names) : "", y_texts,
      html_escaped(chart.x_name), kWidth, kHeight, grid, lines, points, x_texts, notes,
      values_json(chart));
}

}  // namespace longshore::trainer
