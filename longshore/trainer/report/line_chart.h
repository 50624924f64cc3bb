// A line chart for HTML pages: inline SVG that stretches with the page, with text next to it, whose
// values the pointer and the arrow keys read out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "longshore/trainer/report/ticks.h"

namespace longshore::trainer {

struct Point {
  double x = 0, y = 0;  // a y that is not finite is a gap
};

// Colours and dashes are told apart by those who see few colours.
struct Series {
  std::string name;
  std::vector<Point> points;  // from left to right
  bool has_dots = false;      // for few points
  int color = 0;              // from 0; with their dashes 64 differ
};

// A point with a number on the chart, and its text below it.
struct Mark {
  Point at;
  std::string text;
};

struct LineChart {
  std::string title;
  std::string x_name;  // "step"
  Axis y_axis = kNumberAxis;
  std::vector<Series> series;
  std::vector<Mark> marks;
};

// The chart; "" where there is no point. Of many points in a series the least and the largest of
// neighbours are drawn.
std::string line_chart(const LineChart& chart);

// At most `most` points and one: of neighbours that share a place the least and the largest.
std::vector<Point> thinned(const std::vector<Point>& points, size_t most);

}  // namespace longshore::trainer
