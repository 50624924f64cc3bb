#include "longshore/trainer/programs/compare/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/programs/compare/figures.h"
#include "longshore/trainer/report/bar_chart.h"
#include "longshore/trainer/report/html_page.h"

namespace longshore::trainer {
namespace {

using offload::bytes_text;
using offload::MemoryKind;

std::string policies_text(const Comparison& comparison) {
  std::string text;
  for (const Candidate& candidate : comparison.candidates)
    text += (text.empty() ? "" : ", ") + candidate.policy;
  return text;
}

// Which policy to choose for time, and which for memory.
std::string verdict(const Comparison& comparison) {
  struct Measured {
    std::string policy;
    Figures figures;
    int64_t device_bytes() const { return figures.memory[MemoryKind::device].peak_bytes; }
    double seconds() const { return figures.median_seconds; }
  };
  std::vector<Measured> all;
  for (const Candidate& candidate : comparison.candidates)
    if (!candidate.turns.empty())
      all.push_back({candidate.policy, figures(comparison, candidate, {})});
  if (all.empty()) return "Nothing could be measured.";
  const Measured& fastest = *std::ranges::min_element(all, {}, &Measured::seconds);
  const Measured& smallest = *std::ranges::min_element(all, {}, &Measured::device_bytes);
  std::string text =
      fmt::format("Fastest: {}, {:.4f} s a step with {} on the device", fastest.policy,
                  fastest.seconds(), bytes_text(fastest.device_bytes()));
  if (fastest.figures.gain)
    text += fmt::format(", {:.1f} % of {}'s step time saved{}", 100 * fastest.figures.gain->part,
                        comparison.candidates[0].policy,
                        fastest.figures.gain->is_certain() ? "" : " (not in every round)");
  if (smallest.device_bytes() < fastest.device_bytes())
    text += fmt::format(". Least device memory: {}, {} with {:.4f} s", smallest.policy,
                        bytes_text(smallest.device_bytes()), smallest.seconds());
  return text + ".";
}

std::string marker_legend(const std::string& text) {
  return "<svg class=\"marker\" viewBox=\"-7 -7 14 14\"><path d=\"M0-7 5 0 0 7-5 0z\"/></svg> " +
         text;
}

bool is_predicted(const Comparison& comparison) {
  return std::ranges::any_of(comparison.candidates, [](const Candidate& candidate) {
    return !candidate.turns.empty() && candidate.plan->estimate;
  });
}

std::string times_html(const Comparison& comparison) {
  std::vector<Bar> bars;
  for (const Candidate& candidate : comparison.candidates) {
    if (candidate.turns.empty()) continue;
    Figures f = figures(comparison, candidate, {});
    bool is_baseline = &candidate == &comparison.candidates[0];
    Bar bar{.label = candidate.policy,
            .value = fmt::format("{:.4f} s{}", f.median_seconds,
                                 f.gain ? ", " + percent_text(f.gain->part) : ""),
            .parts = {{0, f.median_seconds, is_baseline ? "baseline" : "bar",
                       fmt::format("median {:.4f} s, p10 {:.4f} s, p90 {:.4f} s", f.median_seconds,
                                   f.p10_seconds, f.p90_seconds)}},
            .spread = std::pair{f.p10_seconds, f.p90_seconds},
            .marker = {}};
    if (candidate.plan->estimate) bar.marker = candidate.plan->estimate->step_seconds;
    bars.push_back(bar);
  }
  std::vector<std::string> items{"bar: median; line: p10 to p90; percent: step time saved",
                                 swatch("baseline", "what it is saved against")};
  if (is_predicted(comparison))
    items.push_back(
        marker_legend("predicted for " + html_escaped(comparison.workload.config.hardware)));
  return "<h3>Step time</h3>\n" + legend(items) + bar_chart(bars, kSecondsAxis);
}

Bar memory_bar(const Candidate& candidate, MemoryKind kind) {
  const offload::MemoryAnalysis& memory = candidate.turns.back().memory[kind];
  Bar bar{.label = candidate.policy,
          .value = bytes_text(memory.peak_bytes),
          .parts = {},
          .spread = {},
          .marker = static_cast<double>(candidate.plan->memory[kind].peak_bytes)};
  double end = 0;
  auto add = [&](int64_t bytes, const std::string& style) {
    if (bytes <= 0) return;
    double begin = end;
    end += static_cast<double>(bytes);
    bar.parts.push_back({begin, end, style, style + " " + bytes_text(bytes)});
  };
  for (offload::Category category : offload::kCategories)
    add(memory.by_category[category], name(category));
  add(memory.peak_bytes - memory.live_bytes, "reserved");
  return bar;
}

bool is_used(const Comparison& comparison, offload::Category category) {
  for (const Candidate& candidate : comparison.candidates)
    for (MemoryKind kind : offload::kMemoryKinds)
      if (!candidate.turns.empty() && candidate.turns.back().memory[kind].by_category[category] > 0)
        return true;
  return false;
}

std::string memory_html(const Comparison& comparison) {
  std::string html = "<h3>Memory</h3>\n";
  std::vector<std::string> items;
  for (offload::Category category : offload::kCategories)
    if (is_used(comparison, category)) items.push_back(swatch(name(category), name(category)));
  items.push_back(swatch("grid", "reserved, not alive at the fullest moment"));
  items.push_back(marker_legend("planned peak"));
  html += legend(items);
  for (MemoryKind kind : offload::kMemoryKinds) {
    std::vector<Bar> bars;
    for (const Candidate& candidate : comparison.candidates)
      if (!candidate.turns.empty()) bars.push_back(memory_bar(candidate, kind));
    if (std::ranges::all_of(bars, [](const Bar& bar) { return bar.parts.empty(); })) continue;
    html += fmt::format("<h4>{}</h4>\n", name(kind)) + bar_chart(bars, kBytesAxis);
  }
  return html;
}

std::string workload_html(const Comparison& comparison, const ComparisonReport& report) {
  std::string html = "<section>\n<h2>" + html_escaped(comparison.workload.name) + "</h2>\n" +
                     paragraph("", verdict(comparison)) +
                     paragraph("faint", comparison.workload.config.config_file + ", backend " +
                                            comparison.backend.description);
  for (const std::string& line : choices(comparison)) html += paragraph("faint", line);
  if (is_measured(comparison)) {
    html += paragraph("faint", "MFU is against " + comparison.peak.description) +
            times_html(comparison) + memory_html(comparison) + "<h3>All figures</h3>\n" +
            table_html(figures_table(comparison, report.price_per_device_hour));
    for (const std::string& line : notes(comparison)) html += paragraph("faint", line);
  }
  std::vector<std::string> not_measured = obstacles(comparison);
  if (!not_measured.empty()) html += "<h3>Not measured</h3>\n";
  for (const std::string& line : not_measured) html += "<pre>" + html_escaped(line) + "</pre>\n";
  return html + "<details><summary>Config</summary><pre>" +
         html_escaped(resolved_text(comparison.workload.config)) + "</pre></details>\n</section>\n";
}

// A chart of one figure of each policy other than the baseline, workload by workload.
struct GainChart {
  std::string title;
  double (*value)(const Gain&);
  std::string (*text)(double);
  std::optional<std::pair<double, double>> (*spread)(const Gain&);
  const Axis& axis;
};

std::string gain_chart_html(const ComparisonReport& report, const GainChart& chart) {
  std::vector<Bar> bars;
  for (const Comparison& comparison : report.comparisons)
    for (const Candidate& candidate : comparison.candidates) {
      if (candidate.turns.empty()) continue;
      std::optional<Gain> gain = figures(comparison, candidate, {}).gain;
      if (!gain) continue;
      double value = chart.value(*gain);
      auto spread = chart.spread(*gain);
      bool is_open = spread && !gain->is_certain();
      const char* style = is_open ? "open" : value < 0 ? "slower" : "faster";
      bars.push_back({.group = report.comparisons.size() > 1 ? comparison.workload.name : "",
                      .label = candidate.policy,
                      .value = chart.text(value),
                      .parts = {{0, value, style, candidate.policy}},
                      .spread = spread,
                      .marker = {}});
    }
  if (bars.empty()) return "";
  return "<div><h3>" + chart.title + "</h3>\n" + bar_chart(bars, chart.axis) + "</div>\n";
}

std::string gains_html(const ComparisonReport& report) {
  const GainChart time{.title = "Step time saved",
                       .value = [](const Gain& gain) { return gain.part; },
                       .text = percent_text,
                       .spread =
                           [](const Gain& gain) {
                             return std::optional(std::pair{gain.least, gain.most});
                           },
                       .axis = kPercentAxis};
  const GainChart memory{
      .title = "Device memory saved",
      .value = [](const Gain& gain) { return static_cast<double>(gain.saved_device_bytes); },
      .text = [](double bytes) { return signed_bytes_text(static_cast<int64_t>(bytes)); },
      .spread = [](const Gain&) { return std::optional<std::pair<double, double>>(); },
      .axis = kBytesAxis};
  std::string charts = gain_chart_html(report, time) + gain_chart_html(report, memory);
  if (charts.empty()) return "";
  std::string html = "<section>\n<h2>Gain and headroom</h2>\n" +
                     paragraph("", "Against " + report.comparisons[0].candidates[0].policy) +
                     "<div class=\"columns\">\n" + charts + "</div>\n" +
                     legend({"line: least and most of all rounds",
                             swatch("baseline", "rounds do not agree on who is faster")});
  if (report.comparisons.size() > 1) html += table_html(gains_table(report));
  return html + "</section>\n";
}

std::string rounds_text(const ComparisonReport& report) {
  size_t rounds = 0;
  for (const Comparison& comparison : report.comparisons)
    for (const Candidate& candidate : comparison.candidates)
      rounds = std::max(rounds, candidate.turns.size());
  return rounds == 1 ? "one round" : fmt::format("{} rounds", rounds);
}

std::string results_html(const ComparisonReport& report) {
  if (std::ranges::none_of(report.comparisons, is_measured)) return "";
  std::vector<std::string> lines = differences(report.comparisons);
  if (lines.empty())
    return paragraph("faint",
                     "Losses and gradient norms are " + equality_text(report.comparisons) + ".");
  std::string html = paragraph("bad", "Results depend on the policy, which they must not:");
  for (const std::string& line : lines) html += paragraph("bad", line);
  return html;
}

}  // namespace

std::string html(const ComparisonReport& report) {
  std::string title = "Step times of " + policies_text(report.comparisons[0]);
  std::string body = "<h1>" + html_escaped(title) + "</h1>\n" +
                     paragraph("faint", fmt::format("{} timed steps of each policy, in {}",
                                                    report.steps, rounds_text(report))) +
                     results_html(report) + gains_html(report);
  for (const Comparison& comparison : report.comparisons) body += workload_html(comparison, report);
  return html_page(title, body);
}

}  // namespace longshore::trainer
