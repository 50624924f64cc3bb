#include "longshore/trainer/report/line_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "longshore/trainer/report/html_page.h"

namespace longshore::trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(LineChart, ThinningKeepsEveryExtremeInItsOrder) {
  std::vector<Point> points;
  for (int i = 0; i < 100'000; ++i)
    points.push_back({static_cast<double>(i), std::sin(0.01 * i) + (i == 41'234 ? 50 : 0)});
  const std::vector<Point> kept = thinned(points, 600);
  EXPECT_LE(kept.size(), 601u);
  EXPECT_GT(kept.size(), 500u);
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Point::x));
  EXPECT_EQ(std::ranges::max_element(kept, {}, &Point::y)->x, 41'234);
  EXPECT_EQ(kept.back().x, points.back().x);
  EXPECT_EQ(thinned(points, points.size()).size(), points.size());
}

TEST(LineChart, WhatIsNotFiniteIsAGap) {
  const std::string chart = line_chart(
      {.title = "a", .x_name = "step", .series = {{"y", {{0, 1}, {1, kNan}, {2, 3}, {3, 4}}}}});
  const std::string path = chart.substr(chart.find("class=\"line"));
  const std::string d =
      path.substr(path.find(" d=\"") + 4, path.find("\"/>") - path.find(" d=\"") - 4);
  EXPECT_EQ(std::ranges::count(d, 'M'), 2) << d;
  EXPECT_EQ(std::ranges::count(d, 'L'), 1) << d;
  EXPECT_EQ(chart.find("nan"), std::string::npos);
  EXPECT_EQ(line_chart({.title = "a", .x_name = "step", .series = {{"y", {{0, kNan}}}}}), "");
  EXPECT_EQ(line_chart({.title = "a", .x_name = "step", .series = {}}), "");
}

TEST(LineChart, ManySeriesAreToldApart) {
  LineChart chart{.title = "a", .x_name = "step"};
  for (int i = 0; i < 64; ++i)
    chart.series.push_back({.name = "y", .points = {{0, 1}, {1, 2}}, .color = i});
  const std::string html = line_chart(chart);
  std::set<std::string> styles;
  const std::regex style("class=\"line (series-[0-7] dash-[0-7])\" d=\"M0 4H24\"");
  for (std::sregex_iterator one(html.begin(), html.end(), style), end; one != end; ++one)
    styles.insert((*one)[1]);
  EXPECT_EQ(styles.size(), 64u);
}

TEST(TextTable, ColumnsAreAlignedWhateverIsInThem) {
  EXPECT_EQ(text({{"key", "a\nb", "東"}, {"é", "1", "2"}}),
            "key  a\\nb  東\n"
            "é       1   2\n");
}

// Of all that a chart shows a foreign text may be part, and the values are in a script element.
TEST(LineChart, TextsOfOthersEndNothing) {
  const std::string evil = "</script><img src=x onerror=alert(1)>\"'&\x1b[2J";
  const std::string chart = line_chart({.title = evil,
                                        .x_name = evil,
                                        .series = {{evil, {{0, 1}, {1, 2}}}, {"b", {{0, 1}}}},
                                        .marks = {{{0, 1}, evil}}});
  EXPECT_EQ(chart.find("<img"), std::string::npos);
  EXPECT_EQ(chart.find('\x1b'), std::string::npos);
  const size_t begin = chart.find("<script type=\"application/json\">") + 32;
  const std::string values = chart.substr(begin, chart.find("</script>", begin) - begin);
  EXPECT_EQ(nlohmann::json::parse(values).at("series").at(0).at("name"), evil);
}

TEST(LineChart, TicksAreRoundAndInside) {
  for (const auto& [low, high] : {std::pair{0.0, 1.0}, {4.31, 8.4}, {1e-7, 3e-7}, {-2.0, 900.0}}) {
    const std::vector<double> all = ticks(low, high, Axis::Ticks::decimal);
    ASSERT_GE(all.size(), 2u) << low << " to " << high;
    EXPECT_LE(all.size(), 6u);
    EXPECT_GE(all.front(), low - 1e-9);
    EXPECT_LE(all.back(), high * (1 + 1e-9));
  }
}

TEST(LineChart, AnEndOfTicksComesWhereDoublesTellNoneApart) {
  const double after_one = std::nextafter(1.0, 2.0), great = 0x1p52;
  for (const auto& [low, high] :
       {std::pair{1.0, after_one}, {great, great + 1}, {-1e308, 1e308}, {0.0, 5e-324}})
    EXPECT_LE(ticks(low, high, Axis::Ticks::decimal).size(), 6u) << low << " to " << high;
  const std::string chart =
      line_chart({.title = "a", .x_name = "step", .series = {{"y", {{0, 1}, {1, after_one}}}}});
  EXPECT_NE(chart.find(">0.9<"), std::string::npos) << chart;
}

}  // namespace
}  // namespace longshore::trainer
