#include "longshore/trainer/report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>

#include "longshore/base/progress.h"
#include "longshore/base/text.h"
#include "longshore/trainer/report/bar_chart.h"
#include "longshore/trainer/report/step_drawing.h"
#include "longshore/trainer/report/step_times.h"

namespace longshore::trainer {
namespace {

using nlohmann::ordered_json;
using offload::MemoryKind;

// A chart of some keys. A key that ends in a slash stands for all that begin like it.
struct ChartKeys {
  const char* title;
  std::vector<std::string> keys;
  const Axis* axis = &kNumberAxis;
};

// Of one run the losses share a chart; of several they would hide each other.
std::vector<ChartKeys> chart_keys(bool is_one_run) {
  std::vector<ChartKeys> all{
      {"Learning rate", {"learning_rate"}},
      {"Gradient norm", {"grad_norm"}},
      {"Tokens a second and device", {"tokens_per_second_per_device"}},
      {"MFU", {"mfu"}, &kPercentAxis},
      {"Busiest expert over the mean", {"expert_load"}},
  };
  const std::vector<ChartKeys> losses =
      is_one_run
          ? std::vector<ChartKeys>{{"Loss", {"loss", "validation_loss", "validation_losses/"}}}
          : std::vector<ChartKeys>{{"Loss", {"loss"}}, {"Validation loss", {"validation_loss"}}};
  all.insert(all.begin(), losses.begin(), losses.end());
  return all;
}

// Not drawn: they hardly change, follow from others, or are told otherwise.
const std::set<std::string> kNoCharts{
    "time",        "total_weights",          "tflops_per_device",        "device_peak_bytes",
    kPauseSeconds, "pinned_host_peak_bytes", "checkpoint_stall_seconds", "data_wait_seconds",
    "seconds",
};

bool is_of(const std::string& key, const ChartKeys& chart) {
  return std::ranges::any_of(chart.keys, [&](const std::string& one) {
    return one.ends_with('/') ? key.starts_with(one) : key == one;
  });
}

// Of one run each key has a colour, of several each run.
LineChart chart_of(const std::vector<const RunRecords*>& runs, const ChartKeys& keys) {
  LineChart chart{.title = keys.title, .x_name = "step", .y_axis = *keys.axis};
  for (size_t r = 0; r < runs.size(); ++r)
    for (const auto& [key, numbers] : runs[r]->numbers()) {
      if (!is_of(key, keys)) continue;
      const bool is_sparse = key.starts_with("validation") || numbers.count <= 2;
      const int number = static_cast<int>(runs.size() > 1 ? r : chart.series.size());
      chart.series.push_back({.name = runs.size() > 1 ? runs[r]->name() : spaced(key),
                              .points = numbers.points,
                              .has_dots = is_sparse,
                              .color = number});
    }
  return chart;
}

std::string charts_html(const std::vector<const RunRecords*>& runs) {
  std::string html;
  const std::vector<ChartKeys> known = chart_keys(runs.size() == 1);
  for (const ChartKeys& keys : known) {
    html += line_chart(chart_of(runs, keys));
    if (keys.title == std::string("Gradient norm")) html += line_chart(step_times(runs));
  }
  std::set<std::string> others;
  for (const RunRecords* run : runs)
    for (const auto& [key, numbers] : run->numbers())
      if (!kNoCharts.contains(key) && !key.starts_with("validation_perplexities") &&
          std::ranges::none_of(known, [&](const ChartKeys& keys) { return is_of(key, keys); }))
        others.insert(key);
  for (const std::string& key : others) {
    const std::string title = spaced(key);
    html += line_chart(chart_of(runs, {.title = title.c_str(), .keys = {key}}));
  }
  return html.empty() ? paragraph("faint", "No step is done yet.")
                      : "<div class=\"columns\">\n" + html + "</div>\n";
}

std::string tile(const std::string& name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html_escaped(name),
                     html_escaped(value));
}

int64_t steps_of(const RunRecords& run) { return std::atoll(run.config_value("steps").c_str()); }

std::string state_text(const RunRecords& run, const std::optional<LiveRun>& live) {
  const int64_t all = std::max(steps_of(run), run.steps_done());
  if (run.summary().is_object()) return plural(run.steps_done(), "step") + ", ended";
  std::string text = fmt::format("{} of {} done", run.steps_done(), plural(all, "step"));
  if (!live) return text + ", not ended";
  const double median = run.median("seconds");
  if (std::isfinite(median))
    text += ", about " + time_left_text(median * static_cast<double>(all - run.steps_done()));
  return text + ", as of " + live->at;
}

std::string last_text(const RunRecords& run, const char* key, const char* form) {
  const Numbers* numbers = run.find(key);
  if (numbers == nullptr) return "";
  constexpr double kLong = 1e9;  // without an exponent
  return fmt::format(fmt::runtime(std::abs(numbers->last.y) < kLong ? form : "{:g}"),
                     numbers->last.y);
}

std::string median_text(const RunRecords& run, const char* key, const char* form,
                        double factor = 1) {
  const double median = run.median(key);
  return std::isfinite(median) ? fmt::format(fmt::runtime(form), factor * median) : "";
}

// Of a file of others, which may have any number.
int64_t whole_bytes(double bytes) {
  constexpr double kMost = 0x1p56;
  return std::isfinite(bytes) ? static_cast<int64_t>(std::clamp(bytes, 0.0, kMost)) : 0;
}

// Results by name, in the order of the tiles.
std::vector<std::pair<std::string, std::string>> results_of(const RunRecords& run) {
  std::vector<std::pair<std::string, std::string>> all{
      {"steps", fmt::format("{}", run.steps_done())},
      {"last loss", last_text(run, "loss", "{:.4f}")},
      {"validation loss", last_text(run, "validation_loss", "{:.4f}")},
      {"median step", median_text(run, "seconds", "{:.4g} s")},
      {"tokens a second and device", median_text(run, "tokens_per_second_per_device", "{:.0f}")},
      {"MFU", median_text(run, "mfu", "{:.1f} %", 100)},
  };
  for (const auto& [key, title] : {std::pair{"device_peak_bytes", "device memory, peak"},
                                   std::pair{"pinned_host_peak_bytes", "pinned host memory, peak"}})
    if (const Numbers* bytes = run.find(key); bytes != nullptr && std::isfinite(bytes->last.y))
      all.emplace_back(title, offload::bytes_text(whole_bytes(bytes->last.y)));
  std::erase_if(all, [](const auto& one) { return one.second.empty(); });
  return all;
}

std::string tiles(const RunRecords& run) {
  std::string html = "<dl class=\"tiles\">\n";
  for (const auto& [name, value] : results_of(run)) html += tile(name, value);
  return html + "</dl>\n";
}

// Of a summary, the measured peak of a kind; before the end, what the last step said.
int64_t measured_peak(const RunRecords& run, MemoryKind kind) {
  if (run.summary().is_object())
    if (const auto memory = run.summary().find("memory"); memory != run.summary().end())
      if (const auto one = memory->find(offload::name(kind)); one != memory->end())
        if (const auto peak = one->find("peak_bytes"); peak != one->end() && peak->is_number())
          return whole_bytes(peak->get<double>());
  const Numbers* bytes = run.find(std::string(offload::name(kind)) + "_peak_bytes");
  return bytes == nullptr ? 0 : whole_bytes(bytes->last.y);
}

std::string memory_section(const RunRecords& run) {
  if (!run.plan()) return "";
  std::string html;
  for (MemoryKind kind : offload::kMemoryKinds) {
    const MemoryPicture& curve = run.plan()->curves[kind];
    if (curve.most_bytes() == 0) continue;
    html += fmt::format("<h3>{}</h3>\n", html_escaped(spaced(offload::name(kind)))) +
            memory_html(curve, measured_peak(run, kind),
                        run.plan()->curve_axis +
                            "; measured over the whole run, with its "
                            "evaluations, saves and samples");
  }
  return html.empty() ? "" : "<h2>Memory over a step</h2>\n" + html;
}

std::string lanes_section(const RunRecords& run) {
  const StepPicture *predicted =
                        run.plan() && run.plan()->predicted ? &*run.plan()->predicted : nullptr,
                    *measured = run.measured_step() ? &*run.measured_step() : nullptr;
  // On one axis, unless one of them would be a line there, as of a profile of another machine.
  constexpr double kComparable = 4;
  double seconds = 0;
  if (predicted != nullptr && measured != nullptr) {
    const auto [least, most] = std::minmax(predicted->seconds, measured->seconds);
    if (most < kComparable * least) seconds = most;
  }
  std::string html;
  if (predicted != nullptr)
    html += "<h3>Predicted for " + html_escaped(run.plan()->hardware) +
            fmt::format(": {:.4g} s</h3>\n", predicted->seconds) + lanes_html(*predicted, seconds);
  if (measured != nullptr)
    html += fmt::format("<h3>Measured: {:.4g} s</h3>\n", measured->seconds) +
            lanes_html(*measured, seconds);
  if (html.empty()) return "";
  return "<h2>What each lane does in a step</h2>\n" + html;
}

std::string times_section(const RunRecords& run) {
  const bool is_measured = run.measured_step().has_value();
  const StepPicture* step = is_measured                           ? &*run.measured_step()
                            : run.plan() && run.plan()->predicted ? &*run.plan()->predicted
                                                                  : nullptr;
  if (step == nullptr) return "";
  return fmt::format("<h2>Time by phase and op, {}</h2>\n",
                     is_measured ? "measured" : "predicted") +
         "<div class=\"columns\">\n<div><h3>Phases</h3>\n" + phases_html(*step) +
         "</div>\n<div><h3>Ops</h3>\n" + ops_html(*step) + "</div>\n</div>\n";
}

std::string samples_section(const RunRecords& run) {
  std::string html;
  for (const TextSample& sample : run.samples())
    html += paragraph("faint", sample.after) + "<pre class=\"samples\">" +
            html_escaped(sample.text) + "</pre>\n";
  if (run.summary().is_object())
    if (const auto sample = run.summary().find("sample");
        sample != run.summary().end() && sample->is_string())
      html += paragraph("faint", "at the end") + "<pre class=\"samples\">" +
              html_escaped(sample->get<std::string>()) + "</pre>\n";
  return html.empty() ? "" : "<h2>Samples</h2>\n" + html;
}

std::string keys_html(const Table& table) {
  return "<div class=\"keys\">" + table_html(table) + "</div>";
}

std::string config_section(const RunRecords& run) {
  Table chosen{{"key", "value", "from"}}, defaults = chosen;
  for (const ConfigValue& one : run.config())
    (one.origin == "default" ? defaults : chosen).push_back({one.key, one.value, one.origin});
  if (run.config().empty()) return "";
  return "<h2>Config</h2>\n" + keys_html(chosen) +
         folded(fmt::format("{} keys with their defaults", defaults.size() - 1),
                keys_html(defaults));
}

std::string environment_section(const RunRecords& run) {
  if (!run.plan() || !run.plan()->environment.is_object()) return "";
  Table table{{"", ""}};
  for (const auto& [key, value] : run.plan()->environment.items())
    table.push_back({spaced(key), value.is_string() ? value.get<std::string>() : value.dump()});
  return "<h2>Environment</h2>\n" + keys_html(table);
}

std::string advice_section(const RunRecords& run) {
  if (run.config().empty() && run.advice().empty()) return "";
  const char* nothing =
      run.config_value("hardware").empty()
          ? "With hardware=NAME, a profile, the plan has times, and says what other choices would "
            "gain."
          : "Not there: it comes once a hundredth of a run's time has room for it. plan says at "
            "once what other choices would gain.";
  return "<h2>Advice</h2>\n" + (run.advice().empty()
                                    ? paragraph("faint", nothing)
                                    : "<pre>" + html_escaped(run.advice()) + "</pre>\n");
}

std::string troubles_html(const RunRecords& run) {
  std::string html;
  for (const auto& [file, trouble] : run.troubles()) html += paragraph("bad", trouble);
  return html;
}

}  // namespace

LiveRun live_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local;
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
  return {.at = text};
}

std::string run_page(const RunRecords& run, const std::optional<LiveRun>& live) {
  const bool goes_on = live && !run.summary().is_object();
  const std::string model = run.config_value("model_name");
  std::string body = "<h1>" + html_escaped(run.name()) + "</h1>\n" + "<p class=\"faint\">" +
                     html_escaped((model.empty() ? "" : model + ", ") + state_text(run, live)) +
                     (goes_on ? "<span data-live role=\"status\"></span>" : "") + "</p>\n" +
                     troubles_html(run) + tiles(run) + charts_html({&run}) + memory_section(run) +
                     lanes_section(run) + times_section(run) + samples_section(run) +
                     advice_section(run) + config_section(run) + environment_section(run);
  if (!run.plan_text().empty())
    body += folded("Plan: what each layer keeps and computes again",
                   "<pre>" + html_escaped(run.plan_text()) + "</pre>\n");
  return html_page(run.name(), body);
}

Table differing_keys(const std::vector<RunRecords>& runs) {
  Table table{{"key"}};
  for (const RunRecords& run : runs) table[0].push_back(run.name());
  std::vector<std::string> keys;
  for (const RunRecords& run : runs)
    for (const ConfigValue& one : run.config())
      if (std::ranges::find(keys, one.key) == keys.end()) keys.push_back(one.key);
  for (const std::string& key : keys) {
    std::vector<std::string> row{key};
    for (const RunRecords& run : runs) row.push_back(run.config_value(key));
    if (std::ranges::any_of(row.begin() + 1, row.end(),
                            [&](const std::string& value) { return value != row[1]; }))
      table.push_back(row);
  }
  return table;
}

Table results(const std::vector<RunRecords>& runs) {
  Table table{{"result"}};
  for (const RunRecords& run : runs) table[0].push_back(run.name());
  for (size_t r = 0; r < runs.size(); ++r)
    for (const auto& [name, value] : results_of(runs[r])) {
      auto row = std::ranges::find(table, name, [](const auto& one) { return one[0]; });
      if (row == table.end()) {
        table.emplace_back(runs.size() + 1)[0] = name;
        row = table.end() - 1;
      }
      (*row)[r + 1] = value;
    }
  return table;
}

std::string runs_page(const std::vector<RunRecords>& runs) {
  std::vector<const RunRecords*> all;
  std::vector<std::string> names;
  for (const RunRecords& run : runs) {
    all.push_back(&run);
    names.push_back(run.name());
  }
  const std::string title = join(names);
  std::string body = "<h1>" + html_escaped(title) + "</h1>\n";
  for (const RunRecords& run : runs)
    body += paragraph("faint", run.name() + ": " + state_text(run, {})) + troubles_html(run);
  const Table keys = differing_keys(runs);
  body += "<h2>Results</h2>\n" + table_html(results(runs)) + charts_html(all) +
          "<h2>Keys that differ</h2>\n" +
          (keys.size() > 1 ? keys_html(keys) : paragraph("faint", "none"));
  for (const RunRecords& run : runs) {
    const std::string inner = memory_section(run) + lanes_section(run) + times_section(run) +
                              samples_section(run) + environment_section(run);
    if (!inner.empty()) body += folded(run.name(), inner);
  }
  return html_page(title, body);
}

}  // namespace longshore::trainer
