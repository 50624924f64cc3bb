#include "longshore/trainer/report/step_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "longshore/base/text.h"
#include "longshore/trainer/report/html_page.h"
#include "longshore/trainer/report/palette.h"
#include "longshore/trainer/report/ticks.h"

namespace longshore::trainer {
namespace {

using offload::Category;
using offload::Ledger;

constexpr std::array kKinds{WorkKind::forward,        WorkKind::backward, WorkKind::recomputed,
                            WorkKind::optimizer_step, WorkKind::weights,  WorkKind::activations,
                            WorkKind::gradients,      WorkKind::states,   WorkKind::other};

// Where a drawing has its columns, in its own units.
struct Place {
  double left = 0, top = 0, width = 0, height = 0;
};

std::string percent(double part) { return fmt::format("{:.0f} %", 100 * part); }

// A path for each kind that the lane has, and its name for who asks.
std::string lane_paths(const LanePicture& lane, const Place& place) {
  std::array<std::string, kWorkKinds> paths;
  const double unit = place.width / StepPicture::kColumns;
  for (const LaneBar& bar : lane.bars)
    paths[static_cast<size_t>(bar.kind)] +=
        fmt::format("M{:g} {:g}h{:g}v{:g}h-{:g}z", place.left + bar.begin * unit, place.top,
                    (bar.end - bar.begin) * unit, place.height, (bar.end - bar.begin) * unit);
  std::string svg;
  for (WorkKind kind : kKinds)
    if (const std::string& path = paths[static_cast<size_t>(kind)]; !path.empty())
      svg += fmt::format("<path class=\"{}\" d=\"{}\"><title>{}: {}, {:.3g} s</title></path>",
                         style(kind), path, html_escaped(spaced(lane.name)), name(kind),
                         lane.seconds[static_cast<size_t>(kind)]);
  return svg;
}

// Those that become half a hundredth of the height.
std::vector<Category> shown_categories(const MemoryPicture& picture) {
  std::vector<Category> shown;
  for (Category category : offload::kCategories)
    if (std::ranges::any_of(picture.columns, [&](const Ledger::ByCategory& column) {
          return 200 * column[category] >= picture.most_bytes() && column[category] > 0;
        }))
      shown.push_back(category);
  return shown;
}

// The sum of all first; the next lies on it. `most` is at the place's top.
std::string memory_paths(const MemoryPicture& picture, double most, const Place& place) {
  const std::vector<Category> shown = shown_categories(picture);
  const double bottom = place.top + place.height;
  const double unit =
      place.width / static_cast<double>(std::max<size_t>(picture.columns.size(), 1));
  std::string svg;
  for (size_t count = shown.size(); count > 0; --count) {
    std::string path = fmt::format("M{:g} {:g}", place.left, bottom);
    double at = bottom;
    for (size_t i = 0; i < picture.columns.size(); ++i) {
      double bytes = 0;
      for (size_t c = 0; c < count; ++c) bytes += static_cast<double>(picture.columns[i][shown[c]]);
      const double y = std::round(10 * (bottom - place.height * bytes / most)) / 10;
      if (y == at) continue;
      path += fmt::format("H{:g}V{:g}", place.left + static_cast<double>(i) * unit, y);
      at = y;
    }
    svg += fmt::format("<path class=\"{0}\" d=\"{1}H{2:g}V{3:g}z\"><title>{0}</title></path>",
                       name(shown[count - 1]), path, place.left + place.width, bottom);
  }
  return svg;
}

std::vector<std::string> memory_items(const MemoryPicture& picture) {
  std::vector<std::string> items;
  for (Category category : shown_categories(picture))
    items.push_back(swatch(name(category), name(category)));
  return items;
}

// What each category has at most, and at the moment at which all have most together.
Table memory_table(const MemoryPicture& picture) {
  const auto fullest = std::ranges::max_element(picture.columns, {}, total_bytes);
  Table table{{"category", "at most", "where all have most"}};
  for (Category category : shown_categories(picture)) {
    int64_t most = 0;
    for (const Ledger::ByCategory& column : picture.columns)
      most = std::max(most, column[category]);
    table.push_back(
        {name(category), offload::bytes_text(most), offload::bytes_text((*fullest)[category])});
  }
  return table;
}

std::string y_texts(double most) {
  std::string html;
  for (double tick : ticks(0, most, Axis::Ticks::binary, 4))
    html += fmt::format("<span style=\"top:{:.2f}%\">{}</span>", 100 - 100 * tick / most,
                        kBytesAxis.text(tick));
  return html;
}

// What each lane does, in words.
std::string said(const StepPicture& picture) {
  std::string text = fmt::format("A step takes {:.4g} s.", picture.seconds);
  for (const LanePicture& lane : picture.lanes) {
    std::vector<std::string> parts;
    for (WorkKind kind : kKinds)
      if (const double s = lane.seconds[static_cast<size_t>(kind)]; s * 1000 >= picture.seconds)
        parts.push_back(fmt::format("{} {:.3g} s", name(kind), s));
    text += fmt::format(" {} works for {} of it{}{}.", spaced(lane.name),
                        percent(lane.busy_seconds() / picture.seconds), parts.empty() ? "" : ": ",
                        join(parts));
  }
  if (picture.device.most_bytes() > 0)
    text += fmt::format(" The device's memory has at most {}.",
                        offload::bytes_text(picture.device.most_bytes()));
  return text;
}

bool has_kind(const StepPicture& picture, WorkKind kind) {
  return std::ranges::any_of(picture.lanes, [&](const LanePicture& lane) {
    return std::ranges::any_of(lane.bars, [&](const LaneBar& bar) { return bar.kind == kind; });
  });
}

// The paper and the ink of an SVG file.
constexpr const char* kSvgStyle =
    ".back{fill:#fff}.ink{fill:#222}.rule{stroke:#bbb}"
    "@media(prefers-color-scheme:dark){.back{fill:#0d1117}.ink{fill:#e6edf3}.rule{stroke:#3d444d}}";

std::string svg_text(double x, double y, const std::string& words, const char* anchor = "start",
                     const char* more = "") {
  return fmt::format("<text class=\"ink\" x=\"{:g}\" y=\"{:g}\" text-anchor=\"{}\"{}>{}</text>\n",
                     x, y, anchor, more, html_escaped(words));
}

// Squares and what they mean, in a row.
class SvgLegend {
 public:
  SvgLegend(double x, double y) : x_(x), y_(y) {}
  void add(const std::string& style, const std::string& text) {
    svg_ += fmt::format("<rect class=\"{}\" x=\"{:g}\" y=\"{:g}\" width=\"11\" height=\"11\"/>",
                        style, x_, y_ - 10) +
            svg_text(x_ + 16, y_, text);
    x_ += 38 + 7.2 * static_cast<double>(text.size());
  }
  const std::string& svg() const { return svg_; }

 private:
  double x_, y_;
  std::string svg_;
};

}  // namespace

std::string lanes_html(const StepPicture& picture, double axis_seconds) {
  if (picture.lanes.empty() || picture.seconds <= 0) return "";
  axis_seconds = std::max(axis_seconds, picture.seconds);
  const double part = picture.seconds / axis_seconds;
  std::vector<std::string> items;
  for (WorkKind kind : kKinds)
    if (has_kind(picture, kind)) items.push_back(swatch(style(kind), name(kind)));
  std::string html = legend(items) +
                     "<div class=\"lanes\" role=\"img\" aria-label=\"What each lane does when\">\n";
  for (const LanePicture& lane : picture.lanes)
    html += fmt::format(
        "<span>{}</span><svg viewBox=\"0 0 {} 22\" preserveAspectRatio=\"none\">{}</svg>"
        "<span>{}</span>\n",
        html_escaped(spaced(lane.name)), StepPicture::kColumns,
        lane_paths(lane, {.width = part * StepPicture::kColumns, .height = 22}),
        percent(lane.busy_seconds() / picture.seconds));
  const auto most = static_cast<double>(picture.device.most_bytes());
  if (most > 0)
    html += fmt::format(
        "<span>device memory, at most {}</span><svg class=\"memory\" viewBox=\"0 0 {} 100\" "
        "preserveAspectRatio=\"none\">{}</svg><span></span>\n",
        offload::bytes_text(picture.device.most_bytes()), StepPicture::kMemoryColumns,
        memory_paths(picture.device, most,
                     {.width = part * StepPicture::kMemoryColumns, .height = 100}));
  html += "<div class=\"axis\">";
  for (double tick : ticks(0, axis_seconds, Axis::Ticks::decimal))
    html +=
        fmt::format("<span style=\"left:{:.2f}%\">{:g} s</span>", 100 * tick / axis_seconds, tick);
  return html + "</div></div>\n" + (most > 0 ? legend(memory_items(picture.device)) : "") +
         folded("In words", paragraph("", said(picture)));
}

std::string memory_html(const MemoryPicture& picture, int64_t measured_peak,
                        const std::string& x_text) {
  const double most = 1.04 * static_cast<double>(std::max(picture.most_bytes(), measured_peak));
  if (picture.columns.empty() || most <= 0) return "";
  std::vector<std::string> items = memory_items(picture);
  std::string peak;
  if (measured_peak > 0) {
    peak = fmt::format("<path class=\"peak\" d=\"M0 {0:.2f}H{1}\"/>",
                       100 - 100 * static_cast<double>(measured_peak) / most,
                       StepPicture::kMemoryColumns);
    items.push_back(
        "<svg class=\"key\" viewBox=\"0 0 24 8\"><path class=\"peak\" style=\"stroke:"
        "currentColor;stroke-dasharray:6 4\" d=\"M0 4H24\"/></svg>measured peak " +
        offload::bytes_text(measured_peak));
  }
  return legend(items) +
         fmt::format(
             "<div class=\"plot-area\"><div class=\"y-axis\">{}</div><div class=\"area\" "
             "role=\"img\" aria-label=\"planned: at most {}\"><svg viewBox=\"0 0 {} 100\" "
             "preserveAspectRatio=\"none\">{}{}</svg></div></div>\n{}",
             y_texts(most), offload::bytes_text(picture.most_bytes()), StepPicture::kMemoryColumns,
             memory_paths(picture, most, {.width = StepPicture::kMemoryColumns, .height = 100}),
             peak, paragraph("faint", x_text)) +
         folded("In numbers", table_html(memory_table(picture)));
}

std::string step_svg(const StepPicture& picture, const std::string& title) {
  constexpr double kWidth = 940, kLeft = 120, kRight = 70, kPlot = kWidth - kLeft - kRight;
  constexpr double kBar = 24, kPitch = 32, kMemory = 120, kTop = 62;  // heights, and the first lane
  std::string parts = svg_text(kLeft, 22, title, "start", " font-weight=\"bold\"");
  SvgLegend kinds(kLeft, 46);
  for (WorkKind kind : kKinds)
    if (has_kind(picture, kind)) kinds.add(style(kind), name(kind));
  parts += kinds.svg();
  double y = kTop;
  for (const LanePicture& lane : picture.lanes) {
    parts += lane_paths(lane, {.left = kLeft, .top = y, .width = kPlot, .height = kBar}) + "\n" +
             svg_text(kLeft - 10, y + 17, spaced(lane.name), "end") +
             svg_text(kLeft + kPlot + 10, y + 17, percent(lane.busy_seconds() / picture.seconds));
    y += kPitch;
  }
  std::vector<std::pair<double, double>> ruled{{kTop - 4, y - 4}};
  double bottom = y;
  if (const auto most = static_cast<double>(picture.device.most_bytes()); most > 0) {
    const double top = y + 40;
    SvgLegend categories(kLeft, y + 24);
    for (Category category : shown_categories(picture.device))
      categories.add(name(category), name(category));
    parts += svg_text(kLeft - 10, y + 24, "device memory", "end") + categories.svg() +
             memory_paths(picture.device, most,
                          {.left = kLeft, .top = top, .width = kPlot, .height = kMemory});
    for (double tick : ticks(0, most, Axis::Ticks::binary, 8))
      parts += svg_text(kLeft - 10, std::round(top + kMemory - kMemory * tick / most + 4),
                        kBytesAxis.text(tick), "end");
    bottom = top + kMemory;
    ruled.emplace_back(y + 36, bottom);
  }
  std::string rules;
  for (double tick : ticks(0, picture.seconds, Axis::Ticks::decimal)) {
    const double x = std::round(10 * (kLeft + kPlot * tick / picture.seconds)) / 10;
    for (const auto& [above, below] : ruled)
      rules += fmt::format("<path class=\"rule\" d=\"M{:g} {:g}V{:g}\"/>\n", x, above, below);
    parts += svg_text(x, bottom + 20, fmt::format("{:g} s", tick), "middle");
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" role=\"img\" "
      "aria-labelledby=\"title what\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<title id=\"title\">{2}</title>\n<desc id=\"what\">{3}</desc>\n<style>{4}</style>\n"
      "<rect class=\"back\" width=\"{0:g}\" height=\"{1:g}\"/>\n{5}{6}</svg>\n",
      kWidth, bottom + 32, html_escaped(title), html_escaped(said(picture)),
      svg_palette() + kSvgStyle, rules, parts);
}

}  // namespace longshore::trainer
